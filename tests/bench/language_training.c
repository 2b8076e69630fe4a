/* SPDX-License-Identifier: Apache-2.0 */
/* The library's part of language_training.py: trains the language model of the directory FOLDER/model on the batch
 * FOLDER/batch.safetensors, whole, or only the adapter FOLDER/adapter. Prints losses, seconds and memory as JSON.
 * Usage: language_training FOLDER full|lora f32|bf16 LOSSES STEPS */
#include <ringfire/ringfire.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/clock.h"
#include "../support/try.h"

enum { WARM_UP = 2 };

typedef struct training {
    const char *folder;
    rf_strategy *strategy;
    rf_pretrained *pretrained;
    rf_model *model;
    rf_array_set batch;
    rf_dataset *data;
    rf_optimizer *optimizer;
} training;

static const char *path_of(const training *t, const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", t->folder, name);
    return path;
}

/* The whole batch as one element. */
static rf_result make_data(training *t)
{
    rf_array arrays[2] = { 0 };
    for (uint32_t i = 0; i < t->batch.count; i++)
        arrays[strcmp(t->batch.items[i].name, "labels") == 0] = t->batch.items[i].array;
    const rf_dataset_arrays_params params = { .arrays = arrays, .num_arrays = 2 };
    rf_dataset *rows;
    TRY(rf_dataset_from_arrays(&params, &rows));
    const rf_result r = rf_dataset_batch(rows, (uint32_t)arrays[0].shape.dim[0], RF_REMAINDER_KEEP, &t->data);
    rf_dataset_destroy(&rows);
    return r;
}

static rf_result prepare(training *t, bool adapts, rf_dtype compute)
{
    const rf_optimizer_params adamw = {
        .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 1e-4, .epsilon = 1e-6, .weight_decay = 0.01
    };
    TRY(rf_strategy_create_one_device(NULL, &t->strategy));
    TRY(rf_strategy_set_dtype_policy(t->strategy, &(rf_dtype_policy){ .compute = compute }));
    TRY(rf_safetensors_read(path_of(t, "batch.safetensors"), &t->batch));
    TRY(make_data(t));
    TRY(rf_pretrained_open(t->strategy, path_of(t, "model"), NULL, &t->pretrained));
    t->model = rf_pretrained_model(t->pretrained);
    if (adapts) TRY(rf_lora_load(t->model, "a", path_of(t, "adapter")));
    TRY(rf_optimizer_create(t->strategy, &adamw, &t->optimizer));
    const rf_compile_params compile = {
        .optimizer = t->optimizer, .loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true }
    };
    return rf_model_compile(t->model, &compile);
}

/* So many steps, between which nobody waits for the device. */
static rf_result run_steps(const training *t, uint32_t steps, double *seconds)
{
    rf_dataset *data;
    TRY(rf_dataset_repeat(t->data, steps, &data));
    const double begin = seconds_now();
    const rf_result r = rf_model_fit(t->model, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL);
    *seconds = seconds_now() - begin;
    rf_dataset_destroy(&data);
    return r;
}

/* The most host memory that this process has had. */
static long peak_kilobytes(void)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && value < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "VmHWM:", 6) == 0) value = strtol(line + 6, NULL, 10);
    if (file) fclose(file);
    return value;
}

static rf_result train(training *t, uint32_t losses, uint32_t steps)
{
    double first, seconds;
    rf_history history;
    TRY(rf_model_fit(t->model, &(rf_fit_params){ .data = t->data, .epochs = losses }, &history));
    printf("{\"device\": \"%s\", \"losses\": [", rf_strategy_device_name(t->strategy, 0));
    for (uint32_t i = 0; i < history.num_epochs; i++) printf("%s%.9g", i ? ", " : "", history.epochs[i].value[0]);
    rf_history_free(&history);
    TRY(run_steps(t, WARM_UP, &first));
    TRY(run_steps(t, steps, &seconds));
    printf("], \"seconds\": %.6f, \"host_megabytes\": %.1f}\n", seconds / steps, (double)peak_kilobytes() / 1024);
    return RF_OK;
}

int main(int argc, char **argv)
{
    if (argc != 6) return 2;
    training t = { .folder = argv[1] };
    rf_result r = prepare(&t, strcmp(argv[2], "lora") == 0, strcmp(argv[3], "bf16") == 0 ? RF_BF16 : RF_F32);
    if (r >= 0) r = train(&t, (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[5]));
    if (r < 0) fprintf(stderr, "%s\n", rf_error_message());
    rf_pretrained_destroy(&t.pretrained);
    rf_optimizer_destroy(&t.optimizer);
    rf_dataset_destroy(&t.data);
    rf_array_set_free(&t.batch);
    rf_strategy_destroy(&t.strategy);
    return r < 0;
}
