/* SPDX-License-Identifier: Apache-2.0 */
/* Every public function is called with NULL for each of its pointer arguments in turn. None may crash or hang. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringfire/interchange.h>
#include <ringfire/ringfire.h>

#define NEED(expression)                                                                                               \
    do {                                                                                                               \
        if ((expression) < 0) {                                                                                        \
            fprintf(stderr, "%s: %s\n", #expression, rf_error_message());                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct objects {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_dataset *dataset;
    rf_iterator *iterator;
    rf_metric *metric;
    rf_variable *variable;
    rf_function *function;
    rf_per_replica *per_replica;
    rf_comm *comm;
    rf_checkpoint *checkpoint;
    rf_layer *layer;
    rf_callback *callback;
    rf_archive *archive;
    rf_event_writer *event_writer;
    rf_tokenizer *tokenizer;
    rf_text_lines *text_lines;
    _Alignas(64) char memory[1 << 16];
};

static rf_result refuse_element(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    (void)in;
    (void)out;
    return RF_ERROR_CANCELLED;
}

static rf_tensor give_nothing(rf_trace *t, rf_tensor x, void *user)
{
    (void)t;
    (void)user;
    return x;
}

static rf_tensor call_nothing(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    (void)t;
    (void)model;
    (void)mode;
    (void)user;
    return x;
}

#include "null_calls.h"

/* ---- the call that is under way ---- */

static const char *volatile current = "nothing yet";

static void say_which(int number)
{
    static const char said[] = ": crashed or hung with NULL there\n";
    if (write(STDERR_FILENO, current, strlen(current)) < 0 || write(STDERR_FILENO, said, sizeof(said) - 1) < 0)
        _exit(3);
    (void)number;
    _exit(2);
}

static rf_result sum(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_reduce_sum(t, in[0], NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

typedef struct inside {
    struct objects *objects;
    const struct inside_call *call;
} inside;

static rf_result one_call(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const inside *i = user;
    (void)in;
    (void)out;
    i->call->fn(i->objects, t);
    return RF_ERROR_CANCELLED; /* enough seen */
}

static void make_objects(struct objects *o, const rf_element *batch)
{
    const rf_array array = batch->component[0];
    rf_dataset *slices;
    rf_layer *layer;
    NEED(rf_strategy_create_one_device(NULL, &o->strategy));
    NEED(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &slices));
    NEED(rf_dataset_batch(slices, 2, RF_REMAINDER_KEEP, &o->dataset));
    rf_dataset_destroy(&slices);
    NEED(rf_iterator_create(o->dataset, 0, &o->iterator));
    NEED(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &layer));
    NEED(rf_model_create_sequential(o->strategy, &layer, 1, &RF_SHAPE(2), &o->model));
    NEED(rf_optimizer_create(o->strategy, NULL, &o->optimizer));
    NEED(
        rf_model_compile(o->model, &(rf_compile_params){ .optimizer = o->optimizer, .loss = { .from_logits = true } }));
    NEED(rf_metric_create(o->strategy, &(rf_metric_params){ .kind = RF_METRIC_SUM }, &o->metric));
    NEED(rf_variable_create(o->strategy, &(rf_variable_params){ .shape = RF_SHAPE(2) }, &o->variable));
    NEED(rf_function_create(o->strategy, &(rf_function_params){ .step = sum, .num_outputs = 1 }, &o->function));
    NEED(rf_strategy_run(o->strategy, o->function, batch, &o->per_replica));
    NEED(rf_comm_create(NULL, &o->comm));
    NEED(rf_checkpoint_create(o->strategy, &o->checkpoint));
    NEED(rf_layer_flatten(&o->layer));
    NEED(rf_callback_create(&(rf_callback_fns){ 0 }, NULL, &o->callback));
    NEED(rf_model_save_weights(o->model, "weights", NULL));
    NEED(rf_archive_open("weights", &o->archive));
    NEED(rf_event_writer_create(&(rf_event_writer_params){ .directory = "events" }, &o->event_writer));
    NEED(rf_tokenizer_train(NULL, (const char *const[]){ "text" }, NULL, 1, &o->tokenizer));
    NEED(rf_tokenizer_save(o->tokenizer, "tokenizer"));
    NEED(rf_text_lines_read((const char *const[]){ "tokenizer" }, 1, &o->text_lines));
}

int main(int argc, char **argv)
{
    static struct objects o;
    float x[4] = { 1, 2, 3, 4 };
    const rf_element batch = { 1, { { RF_F32, RF_SHAPE(2, 2), x } } };
    char folder[] = "/tmp/null-arguments-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
    unsetenv("TF_CONFIG");
    make_objects(&o, &batch);
    static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM };
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) signal(signals[i], say_which);
    const bool all = argc < 2; /* else those whose name contains argv[1] */
    int calls = 0;
    for (size_t i = 0; i < sizeof(outside_calls) / sizeof(outside_calls[0]); i++) {
        current = outside_calls[i].name;
        if (!all && !strstr(current, argv[1])) continue;
        alarm(120);
        outside_calls[i].fn(&o);
        calls++;
    }
    for (size_t i = 0; i < sizeof(inside_calls) / sizeof(inside_calls[0]); i++) {
        current = inside_calls[i].name;
        if (!all && !strstr(current, argv[1])) continue;
        alarm(120);
        inside in = { &o, &inside_calls[i] };
        rf_function *f;
        NEED(rf_function_create(o.strategy, &(rf_function_params){ .step = one_call, .user = &in }, &f));
        if (rf_strategy_run(o.strategy, f, &batch, NULL) == RF_OK) return 1;
        rf_function_destroy(&f);
        calls++;
    }
    printf("%d calls of %d functions\n", calls, (int)NUM_FUNCTIONS);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return chdir("/") != 0 || system(command) != 0 || (all && calls < 300);
}
