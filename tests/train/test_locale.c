/* SPDX-License-Identifier: Apache-2.0 */
/* A program that has the decimal comma of its country, or a decimal point of several bytes: files, settings and
 * messages are those of any other program. */
#include "../support/strategies.h"
#include "tests/room.h"

#include <dirent.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../support/folder.h"

/* Locales that the test makes: as POSIX', but for the decimal point. */
static const char *const points[] = { ",", "<U066B>" };
enum { NUM_LOCALES = sizeof(points) / sizeof(points[0]) };

/* False where they cannot be made here. */
static bool make_locales(const char *folder)
{
    static const char source[] = "LC_CTYPE\ncopy \"POSIX\"\nEND LC_CTYPE\nLC_NUMERIC\ndecimal_point \"%s\"\n"
                                 "thousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";
    char command[256], path[64], text[256];
    for (int i = 0; i < NUM_LOCALES; i++) {
        snprintf(path, sizeof(path), "%s/%d.source", folder, i);
        snprintf(text, sizeof(text), source, points[i]);
        scratch_write(path, text);
        /* Forced: it misses the other categories. */
        snprintf(command, sizeof(command), "localedef -c -i '%s' -f UTF-8 '%s/%d.UTF-8' >'%s/log' 2>&1", path, folder,
                 i, folder);
        if (system(command) < 0) return false;
    }
    assert_int_equal(setenv("LOCPATH", folder, 1), 0);
    return true;
}

static bool set_locale(int which)
{
    char name[32];
    snprintf(name, sizeof(name), "%d.UTF-8", which);
    return setlocale(LC_NUMERIC, name) && strcmp(localeconv()->decimal_point, ".") != 0;
}

static void reads_settings(void)
{
    char *end;
    double share = 0;
    rf_compression kind;
    rf_layer *layer;
    assert_true(rf_number_parse("0.5 s", &end) == 0.5);
    assert_string_equal(end, " s");
    assert_true(rf_number_parse("1,5", &end) == 1);
    assert_string_equal(end, ",5");
    assert_true(rf_number_parse("none", &end) == 0);
    assert_string_equal(end, "none");
    assert_true(rf_number_parse(NULL, &end) == 0 && !end);
    OK(rf_compression_parse("top-k=0.25", &kind, &share));
    assert_true(share == 0.25);
    FAILS(rf_layer_leaky_relu(-0.5f, &layer), RF_ERROR_INVALID_ARGUMENT, "negative_slope -0.5 must");
}

static rf_model *make_model(rf_strategy *strategy, rf_optimizer *optimizer)
{
    const rf_shape input = RF_SHAPE(2);
    rf_layer *layers[3];
    rf_model *model;
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2, .kernel_regularizer = { .l2 = 0.125f } }, &layers[0]));
    OK(rf_layer_leaky_relu(0.375f, &layers[1]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1 }, &layers[2]));
    OK(rf_model_create_sequential(strategy, layers, 3, &input, &model));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .kind = RF_LOSS_HUBER, .delta = 0.5f } }));
    return model;
}

/* A file of the folder whose name begins so; the whole path. */
static void find_file(const char *folder, const char *begin, char path[512])
{
    DIR *dir = opendir(folder);
    path[0] = '\0';
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        if (strncmp(e->d_name, begin, strlen(begin)) == 0) snprintf(path, 512, "%s/%s", folder, e->d_name);
    closedir(dir);
    assert_true(path[0]);
}

/* Tests the files that a training writes, and a model that is read again. */
static void writes_files(rf_strategy *strategy, const char *folder)
{
    char pattern[96], path[512], line[96];
    float x[8] = { 0.5f, 1, 2, -1, 0.25f, 3, 1, 1 }, y[4] = { 1, 2, 3, 4 };
    const rf_array arrays[2] = { array_f32(RF_SHAPE(4, 2), x), array_f32(RF_SHAPE(4, 1), y) };
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.125 },
                           &optimizer));
    rf_model *model = make_model(strategy, optimizer), *again;
    rf_dataset *all, *batches;
    rf_callback *callbacks[2];
    snprintf(path, sizeof(path), "%s/log.csv", folder);
    snprintf(pattern, sizeof(pattern), "%s/model_{loss:.3f}", folder);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &all));
    OK(rf_dataset_batch(all, 4, RF_REMAINDER_KEEP, &batches));
    OK(rf_callback_csv_log(path, RF_CSV_LOG_REPLACE, &callbacks[0]));
    OK(rf_callback_model_checkpoint(&(rf_model_checkpoint_params){ .path = pattern }, &callbacks[1]));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = batches, .callbacks = callbacks, .num_callbacks = 2 }, NULL));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int i = 0; i < 2; i++) assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    assert_non_null(strstr(line, ",0.125\n"));
    assert_true(strchr(line, ',') && strchr(strchr(line, ',') + 1, '.'));
    find_file(folder, "model_", path);
    assert_non_null(strchr(strrchr(path, '_'), '.'));
    OK(rf_model_load(strategy, path, &again));
    assert_same_variables(rf_model_variables(model), rf_model_variables(again));
    for (int i = 0; i < 2; i++) rf_callback_destroy(&callbacks[i]);
    rf_dataset_destroy(&all);
    rf_dataset_destroy(&batches);
    rf_model_destroy(&again);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
}

static void other_points(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], files[64];
    int set = 0;
    scratch(folder);
    if (!make_locales(folder)) SKIP("localedef cannot be started");
    for (int i = 0; i < NUM_LOCALES; i++) {
        if (!set_locale(i)) continue;
        set++;
        snprintf(files, sizeof(files), "%s/%d", folder, i);
        assert_int_equal(mkdir(files, 0700), 0);
        reads_settings();
        writes_files(strategy, files);
        assert_true(strcmp(localeconv()->decimal_point, ".") != 0); /* still the program's */
    }
    setlocale(LC_ALL, "C");
    scratch_remove(folder);
    if (set == 0) SKIP("localedef makes no locale with another decimal point");
}

TEST_ON_ONE(other_points)

TESTS(locale, NULL, NULL)
