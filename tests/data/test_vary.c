/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that vary images: colours, places and erased parts against references in double precision, which get the same
 * numbers; and the same pictures from any number of threads and saved positions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/apply.h"
#include "data/transforms/vary.h"
#include "tests/room.h"

enum { N = 24, HEIGHT = 9, WIDTH = 12, CHANNELS = 3, PIXELS = HEIGHT * WIDTH * CHANNELS, SEED = 7 };

/* Images of a noise that repeats nowhere, u8 or (divided by 255) f32, and their numbers. */
static rf_dataset *noise(rf_dtype dtype, int channels)
{
    static uint8_t bytes[N * PIXELS * 2];
    static float values[N * PIXELS * 2];
    static int32_t labels[N];
    const int count = HEIGHT * WIDTH * channels;
    for (int i = 0; i < N * count; i++)
        bytes[i] = (uint8_t)rf_random_key_below((rf_random_key){ 1, 2, (uint64_t)i }, 0, 256);
    for (int i = 0; i < N * count; i++) values[i] = (float)bytes[i] / 255;
    for (int i = 0; i < N; i++) labels[i] = i;
    const rf_array arrays[] = { { dtype, RF_SHAPE(N, HEIGHT, WIDTH, channels),
                                  dtype == RF_U8 ? (void *)bytes : values },
                                { RF_I32, RF_SHAPE(N), labels } };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &d));
    return d;
}

static double value_of(const rf_array *a, int64_t i)
{
    return a->dtype == RF_U8 ? ((const uint8_t *)a->data)[i] : (double)((const float *)a->data)[i];
}

static double between(rf_random_key key, uint64_t draw, double least, double greatest)
{
    return least + (greatest - least) * (double)rf_random_key_uniform(key, draw);
}

/* ---- comparison with a reference ---- */

/* Makes an image of values in 0 .. white. */
typedef void (*reference_fn)(const void *params, rf_random_key key, const double *in, int channels, double white,
                             double *out);

/* `varied` made of images of `in`; takes both. A difference of 0.51 in u8 is rounding. */
static void expect_reference(rf_dataset *in, rf_dataset *varied, reference_fn make, const void *params)
{
    rf_iterator *before, *after;
    OK(rf_iterator_create(in, 3, &before));
    OK(rf_iterator_create(varied, 3, &after));
    int64_t changed = 0;
    for (uint64_t i = 0; i < N; i++) {
        const rf_element *a, *b;
        double image[PIXELS * 2], expected[PIXELS * 2];
        OK(rf_iterator_next(before, &a));
        OK(rf_iterator_next(after, &b));
        const rf_array *from = &a->component[0], *to = &b->component[0];
        const int64_t count = rf_shape_count(from->shape);
        const double white = from->dtype == RF_U8 ? 255 : 1;
        assert_int_equal(to->dtype, from->dtype);
        assert_true(rf_shape_equal(to->shape, from->shape));
        assert_int_equal(*(const int32_t *)b->component[1].data, i);
        for (int64_t k = 0; k < count; k++) image[k] = value_of(from, k);
        make(params, (rf_random_key){ SEED, 3, i }, image, (int)from->shape.dim[2], white, expected);
        for (int64_t k = 0; k < count; k++) {
            const double difference = fabs(value_of(to, k) - expected[k]);
            if (difference > (white > 1 ? 0.51 : 2e-5))
                fail_msg("image %d, value %d: %g, not %g", (int)i, (int)k, value_of(to, k), expected[k]);
            changed += value_of(to, k) != image[k];
        }
    }
    assert_true(changed > N * PIXELS / 100);
    rf_iterator_destroy(&before);
    rf_iterator_destroy(&after);
    rf_dataset_destroy(&in);
    rf_dataset_destroy(&varied);
}

/* ---- colours ---- */

static double clamped(double x, double white)
{
    return x < 0 ? 0 : x > white ? white : x;
}

static double grey_of(const double *p, int channels)
{
    return channels < 3 ? p[0] : 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
}

/* By the six cases of the textbook, in degrees. */
static void shift_hue(double *p, double turn, double white)
{
    const double r = p[0] / white, g = p[1] / white, b = p[2] / white;
    const double v = fmax(r, fmax(g, b)), c = v - fmin(r, fmin(g, b));
    double h = 0;
    if (c > 0 && v == r) h = 60 * (g - b) / c;
    if (c > 0 && v == g && v != r) h = 120 + 60 * (b - r) / c;
    if (c > 0 && v == b && v != r && v != g) h = 240 + 60 * (r - g) / c;
    h = fmod(h + 360 * turn + 720, 360);
    const double s = v > 0 ? c / v : 0, f = h / 60 - floor(h / 60);
    const double low = v * (1 - s), falling = v * (1 - s * f), rising = v * (1 - s * (1 - f));
    const double cases[6][3] = { { v, rising, low },  { falling, v, low }, { low, v, rising },
                                 { low, falling, v }, { rising, low, v },  { v, low, falling } };
    for (int k = 0; k < 3; k++) p[k] = white * cases[(int)(h / 60) % 6][k];
}

static void reference_color(const void *params, rf_random_key key, const double *in, int channels, double white,
                            double *out)
{
    const rf_color_jitter_params *p = params;
    const float ranges[] = { p->brightness, p->contrast, p->saturation };
    double factor[3], mean = 0;
    const int colors = channels < 3 ? 1 : 3, pixels = HEIGHT * WIDTH;
    for (uint64_t i = 0; i < 3; i++)
        factor[i] = between(key, RF_DRAW_COLOR + i, fmax(0, 1 - (double)ranges[i]), 1 + (double)ranges[i]);
    const double turn = between(key, RF_DRAW_COLOR + 3, -(double)p->hue, (double)p->hue);
    memcpy(out, in, sizeof(*in) * (size_t)(pixels * channels));
    for (int i = 0; i < pixels; i++) {
        for (int c = 0; c < colors; c++) out[i * channels + c] = clamped(out[i * channels + c] * factor[0], white);
        mean += grey_of(out + i * channels, channels) / pixels;
    }
    for (int i = 0; i < pixels; i++) {
        double *q = out + i * channels;
        for (int c = 0; c < colors; c++) q[c] = clamped(factor[1] * q[c] + (1 - factor[1]) * mean, white);
        const double grey = grey_of(q, channels);
        for (int c = 0; c < colors; c++) q[c] = clamped(factor[2] * q[c] + (1 - factor[2]) * grey, white);
        if (colors == 3) shift_hue(q, turn, white);
    }
}

static void check_color(rf_dtype dtype, int channels, rf_color_jitter_params p)
{
    rf_dataset *in = noise(dtype, channels), *out;
    OK(rf_dataset_map_color_jitter(in, 0, SEED, &p, &out));
    expect_reference(in, out, reference_color, &p);
}

TEST(test_color)
{
    const rf_color_jitter_params alone[] = {
        { .brightness = 0.8f }, { .contrast = 2 }, { .saturation = 1.5f }, { .hue = 0.5f }, { 0.4f, 0.4f, 0.4f, 0.1f },
    };
    for (int i = 0; i < 5; i++) {
        check_color(RF_U8, 3, alone[i]);
        check_color(RF_F32, 3, alone[i]);
        check_color(RF_F32, 4, alone[i]);
    }
    check_color(RF_U8, 1, (rf_color_jitter_params){ .brightness = 0.5f, .contrast = 0.5f });
    check_color(RF_F32, 2, (rf_color_jitter_params){ .brightness = 0.5f, .contrast = 0.5f });
}

/* White is where f32 says that it is. */
TEST(test_white)
{
    const float pixel[] = { 200, 100, 50 };
    const rf_array image = { RF_F32, RF_SHAPE(1, 1, 1, 3), (void *)(uintptr_t)pixel };
    const rf_color_jitter_params p = { .brightness = 1, .max_value = 255 };
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &image, .num_arrays = 1 }, &d));
    APPLY(d, rf_dataset_map_color_jitter(d, 0, SEED, &p, &applied_));
    for (uint64_t epoch = 0; epoch < 9; epoch++) {
        const double factor = between((rf_random_key){ SEED, epoch, 0 }, RF_DRAW_COLOR, 0, 2);
        OK(rf_iterator_create(d, epoch, &it));
        OK(rf_iterator_next(it, &e));
        for (int c = 0; c < 3; c++)
            assert_true(fabs(value_of(&e->component[0], c) - fmin(255, (double)pixel[c] * factor)) < 1e-3);
        rf_iterator_destroy(&it);
    }
    rf_dataset_destroy(&d);
}

/* ---- places ---- */

/* A pixel of an image that goes on without end, step by step. */
static double endless(const rf_affine_params *p, const double *in, int channels, int row, int column, int c)
{
    const int size[2] = { HEIGHT, WIDTH };
    int at[2] = { row, column };
    for (int i = 0; i < 2; i++)
        while (at[i] < 0 || at[i] >= size[i]) {
            if (p->fill_mode == RF_FILL_CONSTANT) return (double)p->fill_value;
            if (p->fill_mode == RF_FILL_NEAREST) at[i] += at[i] < 0 ? 1 : -1;
            if (p->fill_mode == RF_FILL_WRAP) at[i] += at[i] < 0 ? size[i] : -size[i];
            if (p->fill_mode == RF_FILL_REFLECT) at[i] = at[i] < 0 ? -1 - at[i] : 2 * size[i] - 1 - at[i];
        }
    return in[(at[0] * WIDTH + at[1]) * channels + c];
}

static void reference_affine(const void *params, rf_random_key key, const double *in, int channels, double white,
                             double *out)
{
    const rf_affine_params *p = params;
    const double angle = between(key, RF_DRAW_AFFINE, -1, 1) * (double)p->degrees * acos(-1) / 180;
    const double zoom = p->zoom[1] > 0 ? between(key, RF_DRAW_AFFINE + 1, (double)p->zoom[0], (double)p->zoom[1]) : 1;
    const double down = between(key, RF_DRAW_AFFINE + 2, -1, 1) * (double)p->translate[0] * HEIGHT;
    const double right = between(key, RF_DRAW_AFFINE + 3, -1, 1) * (double)p->translate[1] * WIDTH;
    (void)white;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            /* In polar coordinates about the centre, with the y of the school, which points up. */
            const double from_x = x + 0.5 - WIDTH / 2.0 - right, from_y = HEIGHT / 2.0 - (y + 0.5) + down;
            const double radius = hypot(from_x, from_y) / zoom, at = atan2(from_y, from_x) - angle;
            const double column = WIDTH / 2.0 + radius * cos(at) - 0.5, row = HEIGHT / 2.0 - radius * sin(at) - 0.5;
            for (int c = 0; c < channels; c++) {
                double *to = &out[(y * WIDTH + x) * channels + c];
                *to = 0;
                for (int dy = 0; dy < 2; dy++)
                    for (int dx = 0; dx < 2; dx++)
                        *to += (1 - fabs(row - floor(row) - dy)) * (1 - fabs(column - floor(column) - dx)) *
                               endless(p, in, channels, (int)floor(row) + dy, (int)floor(column) + dx, c);
                if (p->nearest) *to = endless(p, in, channels, (int)floor(row + 0.5), (int)floor(column + 0.5), c);
            }
        }
}

static void check_affine(rf_dtype dtype, int channels, rf_affine_params p)
{
    rf_dataset *in = noise(dtype, channels), *out;
    OK(rf_dataset_map_affine(in, 0, SEED, &p, &out));
    expect_reference(in, out, reference_affine, &p);
}

TEST(test_affine)
{
    for (int mode = RF_FILL_CONSTANT; mode <= RF_FILL_WRAP; mode++) {
        const rf_affine_params cases[] = {
            { .degrees = 180, .fill_value = 0.25f },
            { .zoom = { 0.1f, 2 }, .fill_value = 0.5f },
            { .translate = { 0.5f, 1 } },
            { .degrees = 20, .zoom = { 0.8f, 1.2f }, .translate = { 0.1f, 0.2f }, .nearest = true },
        };
        for (int i = 0; i < 4; i++) {
            rf_affine_params p = cases[i];
            p.fill_mode = (rf_fill_mode)mode;
            check_affine(i % 2 ? RF_U8 : RF_F32, 1 + (mode + i) % 4, p);
        }
    }
}

/* A mask beside the image moves with it. */
TEST(test_mask)
{
    rf_dataset *images = noise(RF_U8, 1), *both;
    const rf_dataset *twice[] = { images, images };
    const rf_affine_params p = { .degrees = 90, .translate = { 0.2f, 0.2f }, .nearest = true };
    rf_iterator *it;
    const rf_element *e;
    OK(rf_dataset_zip(twice, 2, &both));
    APPLY(both, rf_dataset_map_affine(both, 0, SEED, &p, &applied_));
    APPLY(both, rf_dataset_map_affine(both, 2, SEED, &p, &applied_));
    OK(rf_iterator_create(both, 0, &it));
    for (int i = 0; i < N; i++) {
        OK(rf_iterator_next(it, &e));
        assert_memory_equal(e->component[0].data, e->component[2].data, HEIGHT * WIDTH);
    }
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&images);
    rf_dataset_destroy(&both);
}

/* ---- erased parts ---- */

typedef struct erased {
    int row, column, height, width;
} erased;

/* The rectangle of `value` in an image that had none of it. */
static erased find_erased(const rf_array *image, double value)
{
    int top = HEIGHT, left = WIDTH, bottom = -1, right = -1, count = 0;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            int channels = 0;
            for (int c = 0; c < CHANNELS; c++) channels += value_of(image, (y * WIDTH + x) * CHANNELS + c) == value;
            if (channels == 0) continue;
            assert_int_equal(channels, CHANNELS);
            count++;
            top = y < top ? y : top;
            left = x < left ? x : left;
            bottom = y > bottom ? y : bottom;
            right = x > right ? x : right;
        }
    const erased box = { top, left, bottom - top + 1, right - left + 1 };
    if (count > 0) assert_int_equal(count, box.height * box.width);
    return count ? box : (erased){ 0 };
}

/* Checks what is erased in many passes; returns how many images of 20 * N were. */
static int count_erased(const rf_erase_params *p, double area[2], double ratio[2])
{
    rf_dataset *in = noise(RF_F32, CHANNELS), *out;
    bool corners[2] = { false, false };
    int count = 0;
    OK(rf_dataset_map_erase(in, 0, SEED, p, &out));
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        rf_iterator *it;
        const rf_element *e;
        OK(rf_iterator_create(out, epoch, &it));
        for (int i = 0; i < N; i++) {
            OK(rf_iterator_next(it, &e));
            const erased box = find_erased(&e->component[0], (double)p->value);
            if (box.height == 0) continue;
            count++;
            /* Sides are rounded: they may be half a pixel longer or shorter. */
            const double h = box.height, w = box.width;
            assert_true((h + 0.5) * (w + 0.5) >= area[0] * HEIGHT * WIDTH);
            assert_true((h - 0.5) * (w - 0.5) <= area[1] * HEIGHT * WIDTH);
            assert_true((h + 0.5) / (w - 0.5) >= ratio[0] && (h - 0.5) / (w + 0.5) <= ratio[1]);
            corners[0] |= box.row == 0 && box.column == 0;
            corners[1] |= box.row + box.height == HEIGHT && box.column + box.width == WIDTH;
        }
        rf_iterator_destroy(&it);
    }
    assert_true(corners[0] && corners[1]);
    rf_dataset_destroy(&in);
    rf_dataset_destroy(&out);
    return count;
}

TEST(test_erase)
{
    const double mean = 10 * N, five = 5 * sqrt(5 * N);
    const rf_erase_params usual = { .value = 2 };
    const int lost = count_erased(&usual, (double[]){ 0.02, 0.33 }, (double[]){ 0.3, 3.3 });
    assert_true(fabs(lost - mean) < five);
    /* Cutout: 3 x 3 pixels of 9 x 12. */
    const rf_erase_params cutout = {
        .probability = 1, .area = { 1.0f / 12, 1.0f / 12 }, .ratio = { 1, 1 }, .value = -1
    };
    assert_int_equal(count_erased(&cutout, (double[]){ 1.0 / 12, 1.0 / 12 }, (double[]){ 1, 1 }), 20 * N);
    /* Parts that never fit: images stay. */
    rf_dataset *in = noise(RF_F32, CHANNELS), *out;
    rf_iterator *it;
    const rf_element *e;
    OK(rf_dataset_map_erase(in, 0, SEED, &(rf_erase_params){ .probability = 1, .area = { 1, 1 }, .value = -1 }, &out));
    OK(rf_iterator_create(out, 0, &it));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(find_erased(&e->component[0], -1).height, 0);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&in);
    rf_dataset_destroy(&out);
}

/* ---- all of them: threads, positions, passes ---- */

enum { BATCH = 5, BATCHES = (N + BATCH - 1) / BATCH, IMAGE = PIXELS };

static rf_dataset *all_steps(uint32_t num_threads)
{
    rf_dataset *d = noise(RF_U8, CHANNELS);
    const rf_color_jitter_params color = { 0.4f, 0.4f, 0.4f, 0.1f };
    const rf_affine_params affine = { .degrees = 30, .zoom = { 0.8f, 1.2f }, .fill_mode = RF_FILL_REFLECT };
    APPLY(d, rf_dataset_shuffle(d, N, 3, RF_SHUFFLE_EACH_PASS, &applied_));
    APPLY(d, rf_dataset_map_color_jitter(d, 0, SEED, &color, &applied_));
    APPLY(d, rf_dataset_map_affine(d, 0, SEED, &affine, &applied_));
    APPLY(d, rf_dataset_map_erase(d, 0, SEED, NULL, &applied_));
    APPLY(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, &applied_));
    APPLY(d, rf_dataset_parallel(d, num_threads, &applied_));
    return d;
}

static int read_images(rf_iterator *it, int batches, uint8_t *to)
{
    int n = 0;
    for (int i = 0; i < batches; i++) {
        const rf_element *e;
        const rf_result r = rf_iterator_next(it, &e);
        if (r == RF_END) break;
        OK(r);
        memcpy(to + n * IMAGE, e->component[0].data, (size_t)e->component[0].shape.dim[0] * IMAGE);
        n += (int)e->component[0].shape.dim[0];
    }
    return n;
}

TEST(test_threads_and_positions)
{
    static uint8_t first[N * IMAGE], other[N * IMAGE];
    for (uint32_t threads = 1; threads < 5; threads++)
        for (int stop = 0; stop <= BATCHES; stop++) {
            uint8_t *to = threads == 1 && stop == 0 ? first : other;
            rf_dataset *d = all_steps(threads), *twin = all_steps(1 + threads % 2);
            rf_iterator *it;
            void *saved;
            size_t size;
            OK(rf_iterator_create(d, 4, &it));
            const int begun = read_images(it, stop, to);
            OK(rf_iterator_save(it, &saved, &size));
            rf_iterator_destroy(&it);
            OK(rf_iterator_restore(twin, saved, size, &it));
            assert_int_equal(begun + read_images(it, BATCHES, to + begun * IMAGE), N);
            assert_memory_equal(first, to, sizeof(first));
            rf_iterator_destroy(&it);
            rf_iterator_state_free(saved);
            rf_dataset_destroy(&d);
            rf_dataset_destroy(&twin);
        }
    rf_dataset *d = all_steps(2);
    rf_iterator *it;
    OK(rf_iterator_create(d, 5, &it));
    assert_int_equal(read_images(it, BATCHES, other), N);
    assert_memory_not_equal(first, other, sizeof(first));
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* ---- bad arguments ---- */

static rf_dataset *refusing;

static void color_refused(rf_color_jitter_params p, const char *message)
{
    rf_dataset *out;
    FAILS(rf_dataset_map_color_jitter(refusing, 0, 1, &p, &out), RF_ERROR_INVALID_ARGUMENT, message);
    assert_null(out);
}

static void affine_refused(rf_affine_params p, const char *message)
{
    rf_dataset *out;
    FAILS(rf_dataset_map_affine(refusing, 0, 1, &p, &out), RF_ERROR_INVALID_ARGUMENT, message);
    assert_null(out);
}

static void erase_refused(rf_erase_params p, const char *message)
{
    rf_dataset *out;
    FAILS(rf_dataset_map_erase(refusing, 0, 1, &p, &out), RF_ERROR_INVALID_ARGUMENT, message);
    assert_null(out);
}

TEST(test_bad_arguments)
{
    rf_dataset *out;
    refusing = noise(RF_U8, 1);
    color_refused((rf_color_jitter_params){ .brightness = -1 }, "brightness is -1; give a number from 0");
    color_refused((rf_color_jitter_params){ .contrast = NAN }, "contrast is nan");
    color_refused((rf_color_jitter_params){ .saturation = 1 }, "images of 1 channels have no saturation");
    color_refused((rf_color_jitter_params){ .hue = 0.6f }, "hue is 0.6; give a number from 0 to 0.5");
    color_refused((rf_color_jitter_params){ .max_value = 1 }, "white is 255 in u8");
    affine_refused((rf_affine_params){ .degrees = -1 }, "degrees is -1; give 0 to 360");
    affine_refused((rf_affine_params){ .zoom = { 2, 1 } }, "zoom is 2 to 1");
    affine_refused((rf_affine_params){ .zoom = { 0, 1 } }, "zoom is 0 to 1");
    affine_refused((rf_affine_params){ .translate = { 0, 2 } }, "translate[1] is 2; give a part of the width");
    affine_refused((rf_affine_params){ .fill_mode = (rf_fill_mode)4 }, "fill_mode 4");
    affine_refused((rf_affine_params){ .fill_value = INFINITY }, "fill_value is inf");
    erase_refused((rf_erase_params){ .probability = 1.5f }, "probability is 1.5");
    erase_refused((rf_erase_params){ .area = { 0.5f, 0.1f } }, "area is 0.5 to 0.1");
    erase_refused((rf_erase_params){ .area = { 0, 0.1f } }, "area is 0 to 0.1");
    erase_refused((rf_erase_params){ .ratio = { 1, NAN } }, "ratio is 1 to nan");
    erase_refused((rf_erase_params){ .value = NAN }, "value is nan");
    FAILS(rf_dataset_map_erase(refusing, 1, 1, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "component 1 is i32");
    FAILS(rf_dataset_map_affine(refusing, 2, 1, &(rf_affine_params){ 0 }, &out), RF_ERROR_INVALID_ARGUMENT,
          "rf_dataset_map_affine: index is 2");
    APPLY(refusing, rf_dataset_batch(refusing, 4, RF_REMAINDER_KEEP, &applied_));
    color_refused((rf_color_jitter_params){ 0 }, "before they are batched");
    rf_dataset_destroy(&refusing);
}

TESTS(vary, NULL, NULL)
