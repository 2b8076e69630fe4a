/* SPDX-License-Identifier: Apache-2.0 */
/* The library's part of check_pretrained.py, as a program of a user: FOLDER has a directory of the hub, "model", and a
 * batch. Usage: driver results FOLDER | packed FOLDER | step FOLDER RATE | train FOLDER 1|2|workers | memory FOLDER.
 * With the adapter of FOLDER/adapter: adapter FOLDER merge|tied | adapter-step FOLDER RATE | adapter-train FOLDER
 * 1|2|workers.
 * Milliseconds of a step with a new adapter, the process's memory in kB, and the milliseconds that all of its threads
 * compute for a step: adapter-time FOLDER RANK.
 * A last argument int8, nf4 or q4_0 quantizes, with "+" behind it embeddings as well. */
#include <ringfire/ringfire.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/clock.h"
#include "../support/try.h"

enum { STEPS = 20 };

typedef struct session {
    const char *folder;
    rf_strategy *strategy;
    rf_pretrained *pretrained;
    rf_array_set batch;   /* the inputs, and "labels" */
    const char *quantize; /* as the argument has it; NULL: no */
    bool packed;
} session;

static const char *path_of(const session *s, const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", s->folder, name);
    return path;
}

/* The first device is that of whatever driver the environment names. */
static rf_result open_strategy(const char *devices, rf_strategy **out)
{
    if (strcmp(devices, "workers") == 0) {
        const rf_multi_worker_params params = { .mirrored = { .devices = "0" } };
        return rf_strategy_create_multi_worker(&params, out);
    }
    const rf_mirrored_params params = { .devices = strcmp(devices, "2") == 0 ? "0,0" : "0" };
    return rf_strategy_create_mirrored(&params, out);
}

static rf_array array_of(const session *s, const char *name)
{
    for (uint32_t i = 0; i < s->batch.count; i++)
        if (strcmp(s->batch.items[i].name, name) == 0) return s->batch.items[i].array;
    return (rf_array){ 0 };
}

static uint32_t image_size(const session *s)
{
    return (uint32_t)array_of(s, "pixel_values").shape.dim[1];
}

static rf_result open_model(session *s)
{
    static const char *const names[] = { "none", "int8", "nf4", "q4_0" };
    static const char *const weights[] = { "*kernel", "*embeddings" };
    rf_quantize_params quantize = { .weights = weights };
    const rf_pretrained_params params = { .image_size = image_size(s),
                                          .synchronized_batch_norm = true,
                                          .packed = s->packed,
                                          .quantize = s->quantize ? &quantize : NULL };
    for (int i = 1; s->quantize && i < 4; i++)
        if (strncmp(s->quantize, names[i], strlen(names[i])) == 0) quantize.kind = (rf_quantization)i;
    if (s->quantize && strchr(s->quantize, '+')) quantize.num_weights = 2;
    return rf_pretrained_open(s->strategy, path_of(s, "model"), &params, &s->pretrained);
}

static rf_result session_open(session *s, const char *devices)
{
    TRY(open_strategy(devices, &s->strategy));
    TRY(rf_safetensors_read(path_of(s, "batch.safetensors"), &s->batch));
    return open_model(s);
}

static void session_close(session *s)
{
    rf_pretrained_destroy(&s->pretrained);
    rf_array_set_free(&s->batch);
    rf_strategy_destroy(&s->strategy);
}

/* The whole batch as one element: the model's inputs and, of each output, the labels. */
static rf_result make_data(const session *s, bool labels, rf_dataset **out)
{
    const rf_model *model = rf_pretrained_model(s->pretrained);
    const uint32_t inputs = rf_model_num_inputs(model), outputs = labels ? rf_model_num_outputs(model) : 0;
    rf_array arrays[RF_MAX_COMPONENTS];
    for (uint32_t i = 0; i < inputs; i++) arrays[i] = array_of(s, rf_model_input_name(model, i));
    for (uint32_t i = 0; i < outputs; i++) arrays[inputs + i] = array_of(s, "labels");
    const rf_dataset_arrays_params params = { .arrays = arrays, .num_arrays = inputs + outputs };
    rf_dataset *rows;
    TRY(rf_dataset_from_arrays(&params, &rows));
    const rf_result r = rf_dataset_batch(rows, (uint32_t)arrays[0].shape.dim[0], RF_REMAINDER_KEEP, out);
    rf_dataset_destroy(&rows);
    return r;
}

/* A file of the library's own form describes the same model. */
static rf_result check_file(const session *s, const rf_dataset *data, const rf_named_array *results)
{
    rf_model *model;
    rf_array again[RF_MAX_COMPONENTS] = { 0 };
    TRY(rf_model_save(rf_pretrained_model(s->pretrained), path_of(s, "model.rfck"), NULL));
    TRY(rf_model_load(s->strategy, path_of(s, "model.rfck"), &model));
    const uint32_t outputs = rf_model_num_outputs(model);
    const rf_result r = rf_model_predict_many(model, data, again, outputs);
    for (uint32_t i = 0; r >= 0 && i < outputs; i++) {
        const size_t bytes = (size_t)rf_shape_count(results[i].array.shape) * sizeof(float);
        if (memcmp(again[i].data, results[i].array.data, bytes) != 0) puts("model.rfck gives other results");
    }
    for (uint32_t i = 0; i < outputs; i++) rf_array_free(&again[i]);
    rf_model_destroy(&model);
    return r;
}

/* New tokens of all texts, for the reference. */
static rf_result write_texts(const session *s, const rf_array *texts, uint32_t count)
{
    rf_array together;
    TRY(rf_sequences_pad(texts, count, NULL, &together));
    const rf_named_array named = { "texts", together };
    const rf_result r = rf_safetensors_write(path_of(s, "texts.safetensors"), &named, 1);
    rf_array_free(&together);
    return r;
}

/* Texts that go on from beginnings of different lengths are the same with keys and values kept, and read again. */
static rf_result check_texts(const session *s)
{
    enum { NEW = 4, MOST = 8 };
    rf_model *model = rf_pretrained_model(s->pretrained);
    const rf_array ids = array_of(s, rf_model_input_name(model, 0));
    const int64_t steps = ids.shape.dim[1];
    rf_array prompts[MOST], kept[MOST] = { 0 }, again[MOST] = { 0 };
    rf_generate_params params = { .prompts = prompts, .max_new_tokens = NEW };
    if (rf_model_num_inputs(model) != 1 || rf_model_output_shape(model, 0).rank != 2 ||
        strcmp(rf_model_output_name(model, 0), "logits") != 0)
        return RF_OK;
    for (uint32_t i = 0; i < MOST && i < ids.shape.dim[0]; i++) {
        const int64_t most = steps > NEW ? steps - NEW + 1 : 1, length = most > i ? most - i : 1;
        prompts[i] = (rf_array){ RF_I32, RF_SHAPE(length), (int32_t *)ids.data + i * steps };
        params.num_prompts = i + 1;
    }
    rf_result r = rf_model_generate(model, &params, kept);
    params.no_cache = true;
    if (r >= 0) r = rf_model_generate(model, &params, again);
    for (uint32_t i = 0; r >= 0 && i < params.num_prompts; i++)
        if (memcmp(kept[i].data, again[i].data, NEW * sizeof(int32_t)) != 0) puts("a cache gives another text");
    if (r >= 0) r = write_texts(s, kept, params.num_prompts);
    for (uint32_t i = 0; i < params.num_prompts; i++) {
        rf_array_free(&kept[i]);
        rf_array_free(&again[i]);
    }
    return r;
}

/* `check`: whether files of the library's own form give the same. */
static rf_result write_results(const session *s, const char *file, bool check)
{
    rf_dataset *data;
    rf_model *model = rf_pretrained_model(s->pretrained);
    rf_named_array results[RF_MAX_COMPONENTS];
    rf_array arrays[RF_MAX_COMPONENTS] = { 0 };
    const uint32_t outputs = rf_model_num_outputs(model);
    TRY(make_data(s, false, &data));
    rf_result r = rf_model_predict_many(model, data, arrays, outputs);
    for (uint32_t i = 0; i < outputs; i++) results[i] = (rf_named_array){ rf_model_output_name(model, i), arrays[i] };
    if (r >= 0) r = rf_safetensors_write(path_of(s, file), results, outputs);
    if (r >= 0 && check && !s->quantize) r = check_file(s, data, results);
    for (uint32_t i = 0; i < outputs; i++) rf_array_free(&arrays[i]);
    rf_dataset_destroy(&data);
    TRY(r);
    return check ? check_texts(s) : RF_OK;
}

/* With the adapter, merged where `how` says so, and without it. */
static rf_result write_adapted(const session *s, const char *how)
{
    rf_model *model = rf_pretrained_model(s->pretrained);
    TRY(write_results(s, "results.safetensors", false));
    TRY(check_texts(s));
    TRY(rf_lora_save(model, "a", path_of(s, "saved")));
    if (strcmp(how, "merge") == 0) {
        TRY(rf_lora_merge(model, "a"));
    } else if (rf_lora_merge(model, "a") != RF_ERROR_UNSUPPORTED) {
        puts("a table that a head shares was merged");
    }
    TRY(write_results(s, "merged.safetensors", false));
    TRY(rf_lora_unmerge(model));
    return rf_pretrained_save(s->pretrained, path_of(s, "same"));
}

/* The first output of a model whose rows hold several sequences. */
static rf_result write_packed(const session *s)
{
    rf_dataset *data;
    rf_model *model = rf_pretrained_model(s->pretrained);
    rf_array y = { 0 };
    TRY(make_data(s, false, &data));
    rf_result r = rf_model_predict(model, data, &y);
    const rf_named_array named = { rf_model_output_name(model, 0), y };
    if (r >= 0) r = rf_safetensors_write(path_of(s, "packed.safetensors"), &named, 1);
    rf_array_free(&y);
    rf_dataset_destroy(&data);
    return r;
}

/* The mean of a tensor over all but the batch. */
static rf_tensor mean_of(rf_trace *t, rf_tensor x)
{
    const int32_t axes[] = { 1, 2, 3 }, rank = rf_tensor_shape(t, x).rank;
    return rank == 1 ? x : rf_reduce_mean(t, x, axes, (uint32_t)rank - 1, RF_DROP_DIMS);
}

/* The crossentropy of logits, and of other models the squares of what they give. */
static rf_tensor loss_of(rf_trace *t, const rf_tensor *labels, const rf_tensor *predictions, void *user)
{
    if (strcmp(rf_model_output_name(user, 0), "logits") == 0)
        return mean_of(t, rf_sparse_categorical_crossentropy(t, labels[0], predictions[0], RF_LOGITS));
    rf_tensor loss = mean_of(t, rf_square(t, predictions[0]));
    for (uint32_t i = 1; i < rf_model_num_outputs(user); i++)
        loss = rf_add(t, loss, mean_of(t, rf_square(t, predictions[i])));
    return loss;
}

static rf_result train(const session *s, const rf_optimizer_params *optimizer_params, uint32_t steps, bool print)
{
    rf_model *model = rf_pretrained_model(s->pretrained);
    rf_dataset *data = NULL;
    rf_optimizer *optimizer = NULL;
    rf_history history = { 0 };
    rf_result r = make_data(s, true, &data);
    if (r >= 0) r = rf_optimizer_create(s->strategy, optimizer_params, &optimizer);
    const rf_compile_params compile = { .optimizer = optimizer, .loss_fn = loss_of, .loss_user = model };
    if (r >= 0) r = rf_model_compile(model, &compile);
    if (r >= 0) r = rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = steps }, &history);
    for (uint32_t i = 0; print && r >= 0 && i < history.num_epochs && rf_strategy_is_chief(s->strategy); i++)
        printf("%.9g\n", history.epochs[i].value[0]);
    rf_history_free(&history);
    rf_dataset_destroy(&data);
    return r;
}

/* A number of /proc/self/status, in kB. */
static long read_status(const char *name)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && value < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0) value = strtol(line + strlen(name) + 1, NULL, 10);
    if (file) fclose(file);
    return value;
}

/* How much more memory the process has had than before, while it opened the directory. */
static rf_result measure_memory(session *s)
{
    TRY(open_strategy("1", &s->strategy));
    const long before = read_status("VmHWM");
    TRY(open_model(s));
    printf("%ld %llu\n", read_status("VmHWM") - before,
           (unsigned long long)rf_model_num_params(rf_pretrained_model(s->pretrained)) * sizeof(float) / 1024);
    return RF_OK;
}

static rf_result fit_again(const session *s, uint32_t steps)
{
    rf_dataset *data;
    TRY(make_data(s, true, &data));
    const rf_fit_params params = { .data = data, .epochs = steps };
    const rf_result r = rf_model_fit(rf_pretrained_model(s->pretrained), &params, NULL);
    rf_dataset_destroy(&data);
    return r;
}

/* The fastest of five steps, once two have been made. */
static rf_result measure_step(session *s, const char *rank)
{
    static const char *const targets[] = { "c_attn" };
    const rf_optimizer_params adamw = { .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 1e-4 };
    const rf_lora_params lora = { .rank = (uint32_t)atoi(rank), .targets = targets, .num_targets = 1 };
    double fastest = 0, least = 0;
    TRY(session_open(s, "1"));
    TRY(rf_lora_attach(rf_pretrained_model(s->pretrained), "a", &lora));
    TRY(train(s, &adamw, 2, false));
    for (int i = 0; i < 5; i++) {
        const double begin = seconds_now(), computed = processor_seconds();
        TRY(fit_again(s, 1));
        const double step = 1000 * (seconds_now() - begin), processor = 1000 * (processor_seconds() - computed);
        if (i == 0 || step < fastest) fastest = step;
        if (i == 0 || processor < least) least = processor;
    }
    printf("%.3f %ld %.3f\n", fastest, read_status("VmHWM"), least);
    return RF_OK;
}

static rf_result run(session *s, const char *what, const char *argument)
{
    const rf_optimizer_params descent = { .kind = RF_OPTIMIZER_SGD, .learning_rate = argument ? atof(argument) : 0 };
    const rf_optimizer_params adamw = {
        .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 1e-3, .epsilon = 1e-6, .weight_decay = 0.05
    };
    if (strcmp(what, "memory") == 0) return measure_memory(s);
    if (strcmp(what, "adapter-time") == 0) return measure_step(s, argument);
    const bool adapts = strncmp(what, "adapter", 7) == 0, trains = strstr(what, "train") != NULL;
    s->packed = strcmp(what, "packed") == 0;
    TRY(session_open(s, trains ? argument : "1"));
    if (s->packed) return write_packed(s);
    if (adapts) TRY(rf_lora_load(rf_pretrained_model(s->pretrained), "a", path_of(s, "adapter")));
    if (strcmp(what, "adapter") == 0) return write_adapted(s, argument);
    if (trains) {
        TRY(train(s, &adamw, STEPS, true));
        return adapts ? RF_OK : rf_pretrained_save(s->pretrained, path_of(s, "trained"));
    }
    if (strcmp(what, "results") == 0) {
        TRY(write_results(s, "results.safetensors", true));
        return rf_pretrained_save(s->pretrained, path_of(s, "same"));
    }
    TRY(train(s, &descent, 1, false));
    return adapts ? rf_lora_save(rf_pretrained_model(s->pretrained), "a", path_of(s, "step"))
                  : rf_pretrained_save(s->pretrained, path_of(s, "step"));
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    session s = { .folder = argv[2] };
    const bool has_argument =
        strcmp(argv[1], "step") == 0 || strcmp(argv[1], "train") == 0 || strncmp(argv[1], "adapter", 7) == 0;
    if (argc > 3 + has_argument) s.quantize = argv[3 + has_argument];
    const rf_result r = run(&s, argv[1], has_argument && argc > 3 ? argv[3] : NULL);
    if (r < 0) fprintf(stderr, "%s\n", rf_error_message());
    session_close(&s);
    return r < 0;
}
