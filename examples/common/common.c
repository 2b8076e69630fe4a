/* SPDX-License-Identifier: Apache-2.0 */
#include "common.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Signal handlers have no other way to find the strategy. */
static rf_strategy *volatile running;
static uint32_t own_rank, num_workers = 1;
static bool peer_lost, quiet;
static int output_error; /* errno of what was first printed in vain */

void example_report_failure(void)
{
    rf_error_info info;
    rf_error_get(&info);
    peer_lost = info.result == RF_ERROR_PEER_LOST;
    progress_break();
    if (num_workers == 1) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, rf_error_message());
        return;
    }
    /* The program ends here: the other workers should not wait for it. The log says what went before the failure, which
     * is the last that is said. */
    if (running) rf_comm_abort(rf_strategy_comm(running), rf_error_message());
    fprintf(stderr, "%s: rank %u: %s\n", program_invocation_short_name, own_rank, rf_error_message());
}

/* Writes what the library does not fail for but the user should know, and what a worker did last. */
static void write_log(void *user, rf_log_level level, const char *message)
{
    (void)user;
    progress_break();
    fprintf(stderr, "%s: %s%s\n", program_invocation_short_name, level == RF_LOG_WARN ? "warning: " : "", message);
}

static void log_to_stderr(void)
{
    rf_log_set(write_log, NULL, RF_LOG_WARN);
}

void example_print(const char *format, ...)
{
    if (own_rank != 0 || quiet) return;
    progress_break();
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    if (fflush(stdout) != 0 && !output_error) output_error = errno;
}

int example_stopped(void)
{
    example_print("Stopped on request\n");
    return STOPPED;
}

int example_outcome(rf_result r)
{
    if (r == RF_ERROR_CANCELLED && rf_strategy_stop_agreed(running)) return example_stopped();
    TRY(r);
    return 0;
}

int example_exit_status(int result)
{
    if (fflush(stdout) != 0 && !output_error) output_error = errno;
    if (result == 0 && output_error) {
        fprintf(stderr, "%s: standard output: cannot write (%s)\n", program_invocation_short_name,
                strerror(output_error));
        return EXIT_FAILURE;
    }
    if (result == 0 || result == SERVED) return EXIT_SUCCESS;
    if (result == STOPPED) return RF_EXIT_RESTARTABLE;
    return peer_lost ? RF_EXIT_RESTARTABLE : EXIT_FAILURE;
}

static const struct argp_option all_options[] = {
    { "devices", 'd', "LIST", 0,
      "Devices: indices (\"0,2\"), names or parts of them, UUIDs, PCI addresses, or \"all\"; one replica for each "
      "entry (default: the GPUs, where there is none the software drivers; `ringfire devices` shows them)",
      0 },
    { "data", 'D', "DIR", 0, "Directory with the four IDX files, gzipped or not (default: the installed Fashion-MNIST)",
      0 },
    { "epochs", 'e', "N", 0, "Passes over the training set", 0 },
    { "batch-size", 'b', "N", 0, "Examples per replica and step", 0 },
    { "seed", 's', "N", 0, "Seed of initial values and shuffling (default: 1)", 0 },
    { "learning-rate", 'r', "X", 0, "Learning rate", 0 },
    { "strategy", 'y', "NAME", 0,
      "mirrored (the default): every device, of all workers, has the variables and updates its share of them; "
      "central_storage: the first device of LIST has them and makes all updates; one_device: the only one of LIST; "
      "parameter_server: tasks of the cluster that TF_CONFIG describes have them (examples/run_parameter_server.sh)",
      0 },
    { "balance", 'B', NULL, 0, "Split batches by the measured speed of the devices instead of evenly", 0 },
    { "compression", 'C', "KIND", 0,
      "Gradients between workers: none, f16, bf16, or top-k for the largest hundredth (top-k=0.1: the largest tenth)",
      0 },
    { "limit", 'n', "N", 0, "Train on the first N examples only", 0 },
    { "logdir", 'l', "DIR", 0, "Write event files for TensorBoard and `ringfire plot` below DIR", 0 },
    { "checkpoint-dir", 'c', "DIR", 0, "Keep checkpoints in DIR and continue from the latest one there", 0 },
    { "sharded-checkpoints", 'P', NULL, 0,
      "Let every worker write what it owns of a checkpoint; DIR must be shared by all of them", 0 },
    { "mixed", 'm', "TYPE", 0, "Compute with f16 (and scaled losses) or bf16 where layers can; variables stay f32", 0 },
    { "device-cache", 'k', "HOW", 0,
      "Keep the training set in the memory of the devices: auto (where it fits), on or off (default: off)", 0 },
    { "synchronous", 'S', NULL, 0, "Add up the gradients of all workers before each update", 0 },
};
enum { NUM_OPTIONS = sizeof(all_options) / sizeof(all_options[0]) };

uint64_t example_parse_count(struct argp_state *state, const char *text, uint64_t most)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno || *text == '-' || end == text || *end || value == 0 || value > most)
        argp_error(state, "'%s' is not a number from 1 to %llu", text, (unsigned long long)most);
    return value;
}

rf_optimizer_state_type example_parse_state_type(struct argp_state *state, const char *text)
{
    if (strcmp(text, "bf16") == 0) return RF_OPTIMIZER_STATE_BF16;
    if (strcmp(text, "8bit") == 0) return RF_OPTIMIZER_STATE_8BIT;
    if (strcmp(text, "f32") != 0) argp_error(state, "'%s' is none of f32, bf16 and 8bit", text);
    return RF_OPTIMIZER_STATE_F32;
}

double example_parse_rate(struct argp_state *state, const char *text)
{
    char *end;
    const double value = rf_number_parse(text, &end);
    if (end == text || *end || !(value > 0) || !isfinite(value))
        argp_error(state, "'%s' is not a positive learning rate", text);
    return value;
}

static rf_dtype parse_type(struct argp_state *state, const char *text)
{
    if (strcmp(text, "f16") == 0) return RF_F16;
    if (strcmp(text, "bf16") == 0) return RF_BF16;
    argp_error(state, "'%s' is neither f16 nor bf16", text);
    return RF_F32;
}

const rf_loss_scale_params *example_loss_scale(const example_options *options)
{
    static const rf_loss_scale_params scale = { 0 };
    return options->mixed == RF_F16 ? &scale : NULL;
}

static example_strategy parse_strategy(struct argp_state *state, const char *text)
{
    static const char *const names[] = { [STRATEGY_MIRRORED] = "mirrored",
                                         [STRATEGY_CENTRAL_STORAGE] = "central_storage",
                                         [STRATEGY_ONE_DEVICE] = "one_device",
                                         [STRATEGY_PARAMETER_SERVER] = "parameter_server" };
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i]) == 0) return (example_strategy)i;
    argp_error(state, "there is no strategy '%s': mirrored, central_storage, one_device or parameter_server", text);
    return STRATEGY_MIRRORED;
}

static const char servers_refused[] = "--strategy parameter_server: %s; use --strategy mirrored";

static void check_servers(struct argp_state *state, const char *letters, const example_options *o)
{
    if (!strchr(letters, 'S')) argp_error(state, servers_refused, "examples/parameter_server.c shows them");
    if (o->sharded_checkpoints)
        argp_error(state, "--sharded-checkpoints: the chief alone writes what servers hold; leave it out");
    if (o->logdir) argp_error(state, "--logdir: events are those of fit, which is not used; leave it out");
}

/* Refuses options that only some strategies have. */
static void check_strategy(struct argp_state *state, const char *letters, const example_options *o)
{
    if (!strchr(letters, 'B')) return;
    if (o->strategy == STRATEGY_PARAMETER_SERVER) check_servers(state, letters, o);
    if (o->synchronous && o->strategy != STRATEGY_PARAMETER_SERVER)
        argp_error(state, "--synchronous is for --strategy parameter_server; the others are so anyway");
    if (o->compression != RF_COMPRESSION_NONE && o->strategy != STRATEGY_MIRRORED)
        argp_error(state, "--compression is for workers, which only --strategy mirrored has");
    if (o->balance && o->strategy == STRATEGY_ONE_DEVICE)
        argp_error(state, "--balance is for several devices; leave it out, or use --strategy mirrored");
}

static rf_device_cache parse_cache(struct argp_state *state, const char *text)
{
    static const char *const names[] = {
        [RF_DEVICE_CACHE_OFF] = "off", [RF_DEVICE_CACHE_AUTO] = "auto", [RF_DEVICE_CACHE_ON] = "on"
    };
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i]) == 0) return (rf_device_cache)i;
    argp_error(state, "'%s' is none of auto, on and off", text);
    return RF_DEVICE_CACHE_OFF;
}

/* Data that argp's callbacks share. */
typedef struct parse_input {
    example_options *options;
    const char *letters;
    void *own; /* of the example's own options */
    bool own_arguments;
} parse_input;

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    const parse_input *input = state->input;
    example_options *o = input->options;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = input->own; return 0;
    case 'd': o->devices = text; return 0;
    case 'D': o->data = text; return 0;
    case 'e': o->epochs = (uint32_t)example_parse_count(state, text, 1000000); return 0;
    case 'b': o->batch_size = (uint32_t)example_parse_count(state, text, 1u << 20); return 0;
    case 's': o->seed = example_parse_count(state, text, UINT64_MAX); return 0;
    case 'n': o->limit = example_parse_count(state, text, UINT64_MAX); return 0;
    case 'l': o->logdir = text; return 0;
    case 'r': o->learning_rate = example_parse_rate(state, text); return 0;
    case 'c': o->checkpoint_dir = text; return 0;
    case 'P': o->sharded_checkpoints = true; return 0;
    case 'B': o->balance = true; return 0;
    case 'C':
        if (rf_compression_parse(text, &o->compression, &o->top_k_share) < 0)
            argp_error(state, "%s", rf_error_message());
        return 0;
    case 'S': o->synchronous = true; return 0;
    case 'y': o->strategy = parse_strategy(state, text); return 0;
    case ARGP_KEY_END: check_strategy(state, input->letters, o); return 0;
    case 'k': o->device_cache = parse_cache(state, text); return 0;
    case 'm': o->mixed = parse_type(state, text); return 0;
    case ARGP_KEY_ARG:
        if (input->own_arguments) return ARGP_ERR_UNKNOWN;
        argp_error(state, "'%s' is not expected; all arguments are options", text);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

void example_parse(int argc, char **argv, const char *purpose, const char *letters, example_options *options)
{
    if (!options->batch_size) options->batch_size = 64;
    example_parse_with(argc, argv, purpose, letters, options, &(struct argp){ 0 }, NULL);
}

void example_parse_with(int argc, char **argv, const char *purpose, const char *letters, example_options *options,
                        const struct argp *own, void *own_input)
{
    if (!options->epochs) options->epochs = 1;
    if (!(options->learning_rate > 0)) options->learning_rate = 1e-3;
    struct argp_option offered[NUM_OPTIONS + 1] = { { 0 } };
    char epochs[64], batch[64], rate[64];
    snprintf(rate, sizeof(rate), "Learning rate (default: %g)", options->learning_rate);
    snprintf(epochs, sizeof(epochs), "Passes over the training set (default: %u)", options->epochs);
    snprintf(batch, sizeof(batch), "Examples per replica and step (default: %u)", options->batch_size);
    for (int i = 0, n = 0; i < NUM_OPTIONS; i++) {
        const int key = all_options[i].key;
        if (!strchr(letters, key == 'C' || key == 'y' ? 'B' : key)) continue;
        offered[n] = all_options[i];
        if (offered[n].key == 'e') offered[n].doc = epochs;
        if (offered[n].key == 'r') offered[n].doc = rate;
        if (offered[n].key == 'b' && options->batch_size) offered[n].doc = batch;
        n++;
    }
    const struct argp_child children[] = { { own, 0, NULL, 0 }, { 0 } };
    const struct argp parser = { offered, parse_option, NULL, purpose, children, NULL, NULL };
    if (!options->seed) options->seed = 1;
    argp_parse(&parser, argc, argv, 0, NULL, &(parse_input){ options, letters, own_input, own->args_doc != NULL });
    log_to_stderr();
}

/* Prints which devices are left out, and why, where the devices are chosen by default; a note where a software driver
 * computes. */
static int print_device_notes(const example_options *options, rf_strategy *strategy)
{
    uint32_t count = 0;
    TRY(rf_devices_list(NULL, &count));
    rf_device_info *infos = calloc(count, sizeof(*infos));
    bool software = false;
    if (!infos || rf_devices_list(infos, &count) < 0) count = 0;
    const char *named = options->devices ? options->devices : getenv("RINGFIRE_DEVICES");
    for (uint32_t i = 0; i < count && options->strategy != STRATEGY_ONE_DEVICE && (!named || !named[0]); i++) {
        char why[256];
        if (rf_device_left_out(&infos[i], why, sizeof(why))[0])
            example_print("Left out: device %u, %s: %s\n", i, infos[i].name, why);
    }
    for (uint32_t r = 0; r < rf_strategy_num_replicas_in_sync(strategy); r++)
        for (uint32_t i = 0; i < count; i++)
            software |=
                infos[i].type == RF_DEVICE_TYPE_CPU && strcmp(infos[i].name, rf_strategy_device_name(strategy, r)) == 0;
    free(infos);
    if (software) example_print("A software driver computes on the CPU: a GPU with a Vulkan driver is much faster.\n");
    return 0;
}

static void request_stop(int signal)
{
    (void)signal;
    progress_break(); /* what the terminal shows of Ctrl-C stands behind it */
    rf_strategy_request_stop(running);
}

static void stop_on_signals(rf_strategy *strategy)
{
    running = strategy;
    struct sigaction action = { .sa_handler = request_stop, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags |= SA_RESETHAND; /* a second Ctrl-C ends the program at once */
    sigaction(SIGINT, &action, NULL);
}

int example_refuse_servers(const char *why)
{
    fprintf(stderr, "%s: ", program_invocation_short_name);
    fprintf(stderr, servers_refused, why);
    fprintf(stderr, "\n");
    return -1;
}

/* On the first of the devices. */
static int serve(const char *devices)
{
    char first[16] = "all";
    uint32_t index = 0, count = 1;
    if (devices && strcasecmp(devices, first) != 0) {
        TRY(rf_devices_select(devices, &index, &count));
        snprintf(first, sizeof(first), "%u", index);
    }
    TRY(rf_parameter_server_run(&(rf_parameter_server_params){ .device = { .device = devices ? first : NULL } }));
    return SERVED;
}

/* Each task has a strategy of its own devices, but servers, which need nothing of the program. The chief alone prints.
 */
static int join_cluster(const example_options *options, const rf_mirrored_params *mirrored, rf_strategy **strategy)
{
    rf_cluster_task task;
    TRY(rf_cluster_task_get(&task));
    quiet = task.role != RF_ROLE_CHIEF;
    if (task.role == RF_ROLE_PARAMETER_SERVER) return serve(options->devices);
    if (task.role == RF_ROLE_EVALUATOR) return SERVED; /* the chief evaluates */
    TRY(rf_strategy_create_mirrored(mirrored, strategy));
    return 0;
}

/* Each worker would train alone, and all of them write the same files. */
static int refuse_job(void)
{
    rf_comm *comm;
    TRY(rf_comm_create(NULL, &comm));
    const uint32_t size = rf_comm_world_size(comm);
    if (size > 1) /* on each: the first one that ends is the one whose last line the launcher shows */
        fprintf(stderr, "%s: this job has %u workers, which only --strategy mirrored spans\n",
                program_invocation_short_name, size);
    rf_comm_destroy(&comm);
    return size > 1 ? -1 : 0;
}

static int open_strategy(const example_options *options, rf_strategy **strategy)
{
    const rf_mirrored_params mirrored = { .devices = options->devices,
                                          .balance = options->balance ? RF_BALANCE_AUTO : RF_BALANCE_OFF };
    if (options->strategy == STRATEGY_PARAMETER_SERVER) return join_cluster(options, &mirrored, strategy);
    if (options->strategy != STRATEGY_MIRRORED && refuse_job() < 0) return -1;
    switch (options->strategy) {
    case STRATEGY_MIRRORED:
        TRY(rf_strategy_create_multi_worker(&(rf_multi_worker_params){ .mirrored = mirrored,
                                                                       .compression = options->compression,
                                                                       .top_k_share = options->top_k_share },
                                            strategy));
        break;
    case STRATEGY_PARAMETER_SERVER: /* above */ break;
    case STRATEGY_CENTRAL_STORAGE:
        TRY(rf_strategy_create_central_storage(&(rf_central_storage_params){ .mirrored = mirrored }, strategy));
        break;
    case STRATEGY_ONE_DEVICE:
        TRY(rf_strategy_create_one_device(&(rf_one_device_params){ .device = options->devices }, strategy));
        break;
    }
    return 0;
}

int example_create_strategy(const example_options *options, rf_strategy **strategy)
{
    const int opened = open_strategy(options, strategy);
    if (opened != 0) return opened;
    own_rank = rf_strategy_rank(*strategy);
    num_workers = rf_strategy_world_size(*strategy);
    if (options->strategy != STRATEGY_PARAMETER_SERVER) stop_on_signals(*strategy);
    rf_strategy_set_seed(*strategy, options->seed);
    TRY(rf_strategy_set_dtype_policy(*strategy, &(rf_dtype_policy){ .compute = options->mixed }));
    const uint32_t count = rf_strategy_num_replicas_in_sync(*strategy);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = rf_strategy_device_name(*strategy, i);
        if (num_workers > 1)
            example_print("Replica %u: %s, worker %u\n", i, name, rf_strategy_replica_rank(*strategy, i));
        else
            example_print("Replica %u: %s\n", i, name);
    }
    if (print_device_notes(options, *strategy) < 0) return -1;
    example_print("Number of devices: %u\n", count);
    return 0;
}

void example_destroy_strategy(rf_strategy **strategy)
{
    running = NULL; /* rf_strategy_request_stop() takes NULL */
    rf_strategy_destroy(strategy);
}

int example_create_model(rf_strategy *strategy, int made, rf_layer **layers, uint32_t num_layers, rf_model **model)
{
    const rf_shape image = RF_SHAPE(28, 28, 1);
    for (uint32_t i = 0; made < 0 && i < num_layers; i++) rf_layer_destroy(&layers[i]);
    if (made < 0) return -1;
    TRY(rf_model_create_sequential(strategy, layers, num_layers, &image, model));
    return 0;
}

int example_distribute(rf_strategy *strategy, rf_dataset **data)
{
    rf_dataset *whole = *data;
    *data = NULL;
    const rf_result r = rf_strategy_distribute_dataset(strategy, whole, NULL, data);
    rf_dataset_destroy(&whole);
    TRY(r);
    return 0;
}

int example_add_callbacks(const example_options *options, rf_callback **callbacks, uint32_t *count)
{
    if (options->checkpoint_dir) {
        const rf_backup_params params = { .directory = options->checkpoint_dir,
                                          .save_every_batches = options->save_every,
                                          .keep = true,
                                          .save.sharded = options->sharded_checkpoints };
        TRY(rf_callback_backup_and_restore(&params, &callbacks[*count]));
        ++*count;
    }
    if (options->logdir) {
        const rf_tensorboard_params params = { .directory = options->logdir, .histogram_freq = 1 };
        TRY(rf_callback_tensorboard(&params, &callbacks[*count]));
        ++*count;
    }
    return 0;
}

int example_check_loss(double loss, uint64_t epoch, uint64_t step)
{
    if (isfinite(loss)) return 0;
    progress_break();
    fprintf(stderr, "%s: ", program_invocation_short_name);
    if (epoch > 0) fprintf(stderr, "epoch %llu, ", (unsigned long long)epoch);
    if (step > 0) fprintf(stderr, "step %llu, ", (unsigned long long)step);
    fprintf(stderr, "the loss is %g; look for NaN in the data, or try a smaller learning rate\n", loss);
    return -1;
}

/* One pass over the labels before the training: one that no output of the model stands for makes every loss NaN. */
static int check_labels(const example_options *options, const rf_dataset *raw, const char *name)
{
    enum { CLASSES = 10 };
    rf_iterator *it;
    const rf_element *element;
    TRY(rf_iterator_create(raw, 0, &it));
    rf_result r;
    int32_t label = 0;
    uint64_t index = 0;
    for (; (r = rf_iterator_next(it, &element)) == RF_OK; index++) {
        label = *(const int32_t *)element->component[1].data;
        if (label < 0 || label >= CLASSES) break;
    }
    rf_iterator_destroy(&it);
    TRY(r);
    if (r == RF_END) return 0;
    fprintf(stderr, "%s: %s set in %s: example %llu has the label %d, but there are %d classes from 0\n",
            program_invocation_short_name, name, options->data ? options->data : "the default directory",
            (unsigned long long)index, label, CLASSES);
    return -1;
}

static int load_split(const example_options *options, rf_split split, rf_dataset **out)
{
    rf_dataset *raw = NULL, *taken = NULL;
    TRY(rf_dataset_from_mnist_directory(options->data, split, &raw));
    if (check_labels(options, raw, split == RF_SPLIT_TRAIN ? "training" : "test") < 0) {
        rf_dataset_destroy(&raw);
        return -1;
    }
    rf_result r = RF_OK;
    if (split == RF_SPLIT_TRAIN && options->limit) {
        r = rf_dataset_take(raw, options->limit, &taken);
        rf_dataset_destroy(&raw);
        raw = taken;
    }
    if (r == RF_OK) r = rf_dataset_map_scale_u8(raw, 0, out);
    rf_dataset_destroy(&raw);
    TRY(r);
    return 0;
}

int example_load_images(const example_options *options, rf_dataset **train, rf_dataset **test)
{
    if (load_split(options, RF_SPLIT_TRAIN, train) < 0) return -1;
    return load_split(options, RF_SPLIT_TEST, test);
}

rf_tensor example_alone(rf_trace *t, rf_tensor batch)
{
    const int64_t first = 0, second = 1;
    return rf_squeeze(t, rf_slice(t, batch, &first, &second, NULL, 1), 0);
}
