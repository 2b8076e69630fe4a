/* SPDX-License-Identifier: Apache-2.0 */
/* The code of docs/guides, word for word (tests/project/check_pages.py), does what the pages say; that of models in
 * files is in test_model_files.c. */
#include <unistd.h>

#include <ringfire/ringfire.h>

#include "../support/folder.h"
#include "../support/strategies.h"
#include "../support/try.h"
#include "tests/room.h"

/* Takes the first batch of a dataset, destroys it, and compares the shape of a component. */
static void expect_first(rf_dataset **dataset, uint32_t component, rf_shape expected)
{
    rf_iterator *iterator;
    const rf_element *element;
    char text[96];
    OK(rf_iterator_create(*dataset, 0, &iterator));
    OK(rf_iterator_next(iterator, &element));
    if (!rf_shape_equal(element->component[component].shape, expected))
        fail_msg("%s", rf_shape_format(element->component[component].shape, text, sizeof(text)));
    rf_iterator_destroy(&iterator);
    rf_dataset_destroy(dataset);
}

/* Datasets keep what they are made of. */
static void forget(rf_dataset *a, rf_dataset *b, rf_dataset *c)
{
    rf_dataset_destroy(&a);
    rf_dataset_destroy(&b);
    rf_dataset_destroy(&c);
}

/* ---- data.md ---- */

static rf_result read_tables(rf_dataset **out)
{
    rf_dataset *table;
    static const char *const paths[] = { "wine-2019.csv", "wine-2020.csv" };
    static const char *const features[] = { "acidity", "sugar", "alcohol" }, *const label[] = { "quality" };
    const rf_csv_component components[] = {
        { .dtype = RF_F32, .names = features, .num_columns = 3 }, /* [3] */
        { .dtype = RF_I32, .names = label, .num_columns = 1 },    /* a scalar */
    };
    const rf_csv_params csv = {
        .paths = paths, .num_paths = 2, .header = true, .components = components, .num_components = 2
    };
    TRY(rf_dataset_from_csv(&csv, &table));
    *out = table;
    return RF_OK;
}

TEST(tables)
{
    rf_dataset *table;
    scratch_write("wine-2019.csv", "alcohol,acidity,sugar,quality\n11,3,1,6\n12,4,2,7\n");
    scratch_write("wine-2020.csv", "acidity,sugar,alcohol,quality\n3,n/a,11,6\n");
    FAILS(read_tables(&table), RF_ERROR_CORRUPT_DATA,
          "wine-2020.csv:2: column 1 ('sugar'): 'n/a' is not a number that f32 can hold");
    scratch_write("wine-2020.csv", "acidity,sugar,alcohol,quality\n3,2,11,6\n");
    OK(read_tables(&table));
    assert_int_equal(rf_dataset_cardinality(table), 3);
    expect_first(&table, 0, RF_SHAPE(3));
}

/* Line u8 [n] -> its first 64 tokens i32 [k]. */
static rf_result encode(void *user, const rf_element *in, rf_element *out)
{
    const rf_tokenizer *tokenizer = user;
    const rf_array *line = &in->component[0];
    rf_array tokens, *to = &out->component[0];
    TRY(rf_tokenizer_encode(tokenizer, line->data, (size_t)line->shape.dim[0], &tokens));
    to->shape.dim[0] = tokens.shape.dim[0] < 64 ? tokens.shape.dim[0] : 64;
    memcpy(to->data, tokens.data, (size_t)to->shape.dim[0] * sizeof(int32_t));
    rf_array_free(&tokens);
    return RF_OK;
}

static rf_result read_lines(const char *const *paths, rf_tokenizer *tokenizer, rf_dataset **out)
{
    rf_dataset *lines, *tokens, *shuffled, *batches;
    const rf_text_lines_params text = { .paths = paths, .num_paths = 2, .max_bytes = 2000, .skip_empty = true };
    const rf_element_spec spec = { .num_components = 1, .dtype = { RF_I32 }, .shape = { RF_SHAPE(64) } };
    const rf_padded_batch_params padding = { .batch_size = 32, .padded = { true } };
    TRY(rf_dataset_from_text_lines(&text, &lines));
    TRY(rf_dataset_map(lines, encode, tokenizer, &spec, &tokens));
    TRY(rf_dataset_shuffle(tokens, 10000, 1, RF_SHUFFLE_EACH_PASS,
                           &shuffled)); /* a buffer of lines would hold max_bytes for each */
    TRY(rf_dataset_padded_batch(shuffled, &padding, &batches));
    forget(lines, tokens, shuffled);
    *out = batches;
    return RF_OK;
}

static rf_result draw_negatives(int32_t *user_of, int32_t *item_of, int64_t count, rf_dataset **out)
{
    rf_dataset *pairs, *shuffled;
    const rf_array users = { RF_I32, RF_SHAPE(count), user_of }, items = { RF_I32, RF_SHAPE(count), item_of };
    const rf_pairs_params drawn = { .users = &users, .items = &items, .num_items = 3706, .negatives = 4, .seed = 1 };
    TRY(rf_dataset_from_pairs(&drawn, &pairs));
    TRY(rf_dataset_shuffle(pairs, (uint64_t)rf_dataset_cardinality(pairs), 1, RF_SHUFFLE_EACH_PASS, &shuffled));
    rf_dataset_destroy(&pairs);
    *out = shuffled;
    return RF_OK;
}

TEST(negatives)
{
    int32_t users[] = { 0, 0, 1 }, items[] = { 5, 7, 3705 };
    rf_dataset *pairs;
    OK(draw_negatives(users, items, 3, &pairs));
    assert_int_equal(rf_dataset_cardinality(pairs), 3 * (1 + 4));
    expect_first(&pairs, 2, RF_SHAPE(1));
}

static rf_result read_records(const char *const *paths, uint32_t num_paths, rf_dataset **out)
{
    rf_dataset *records;
    static const float no_weight = 1;
    static const rf_array weight = { RF_F32, { 0, { 0 } }, (void *)&no_weight }; /* a scalar */
    const rf_tfrecord_feature features[] = {
        { .name = "image/encoded", .dtype = RF_U8, .shape = RF_SHAPE(224, 224, 3), .image = true }, /* PNG or JPEG */
        { .name = "image/class/label", .dtype = RF_I32 },                /* from int64, if it fits */
        { .name = "weight", .dtype = RF_F32, .default_value = &weight }, /* which records may lack */
    };
    const rf_tfrecord_params files = {
        .paths = paths, .num_paths = num_paths, .features = features, .num_features = 3
    };
    TRY(rf_dataset_from_tfrecord(&files, &records));
    *out = records;
    return RF_OK;
}

TEST(records)
{
    const char *const paths[] = { "train-0", "missing" };
    rf_dataset *empty;
    scratch_write("train-0", "");
    OK(read_records(paths, 1, &empty));
    assert_int_equal(rf_dataset_cardinality(empty), 0);
    rf_dataset_destroy(&empty);
    FAILS(read_records(paths, 2, &empty), RF_ERROR_NOT_FOUND, "missing");
}

/* (words i32 [100], length i32 []) -> the words */
static rf_result cut(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    out->component[0].shape.dim[0] = *(const int32_t *)in->component[1].data;
    memcpy(out->component[0].data, in->component[0].data,
           (size_t)rf_shape_count(out->component[0].shape) * sizeof(int32_t));
    return RF_OK;
}

static rf_result pad_sentences(const rf_dataset *table, rf_dataset **out)
{
    rf_dataset *sentences, *batches;
    static const uint32_t borders[] = { 25, 50, 100 };
    const rf_element_spec words = { .num_components = 1, .dtype = { RF_I32 }, .shape = { RF_SHAPE(100) } };
    const rf_padded_batch_params padding = {
        .batch_size = 32, .padded = { true }, .borders = borders, .num_borders = 3
    };
    TRY(rf_dataset_map(table, cut, NULL, &words, &sentences));
    TRY(rf_dataset_padded_batch(sentences, &padding, &batches));
    rf_dataset_destroy(&sentences);
    *out = batches;
    return RF_OK;
}

TEST(sequences)
{
    static int32_t words[40 * 100], lengths[40];
    for (int i = 0; i < 40; i++) lengths[i] = 26 + i % 20;
    const rf_array arrays[] = { array_i32(RF_SHAPE(40, 100), words), array_i32(RF_SHAPE(40), lengths) };
    rf_dataset *table, *batches;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &table));
    OK(pad_sentences(table, &batches));
    rf_dataset_destroy(&table);
    expect_first(&batches, 0, RF_SHAPE(32, 50));
}

struct tables {
    const char *const *paths;
    const rf_csv_component *components;
};

/* Number of a file i32 [] -> its rows. */
static rf_result open_table(void *user, const rf_element *in, rf_dataset **out)
{
    const struct tables *t = user;
    const char *path = t->paths[*(const int32_t *)in->component[0].data];
    const rf_csv_params csv = { .paths = &path, .num_paths = 1, .components = t->components, .num_components = 2 };
    return rf_dataset_from_csv(&csv, out);
}

static rf_result join_tables(const rf_dataset *numbers, struct tables *tables, rf_dataset **out)
{
    rf_dataset *files, *rows, *shuffled;
    const rf_element_spec row_spec = { .num_components = 2, .dtype = { RF_F32, RF_I32 }, .shape = { RF_SHAPE(2) } };
    const rf_interleave_params eight = { .cycle_length = 8 };
    TRY(rf_dataset_shuffle(numbers, 64, 1, RF_SHUFFLE_EACH_PASS, &files)); /* i32 scalars 0 to 63 */
    TRY(rf_dataset_interleave(files, open_table, tables, &row_spec, &eight, &rows));
    TRY(rf_dataset_shuffle(rows, 10000, 2, RF_SHUFFLE_EACH_PASS, &shuffled));
    forget(files, rows, NULL);
    *out = shuffled;
    return RF_OK;
}

TEST(datasets_of_elements)
{
    static const uint32_t features[] = { 0, 1 }, label[] = { 2 };
    static const char *const paths[] = { "a.csv", "b.csv" };
    const rf_csv_component components[] = { { .dtype = RF_F32, .columns = features, .num_columns = 2 },
                                            { .dtype = RF_I32, .columns = label, .num_columns = 1 } };
    struct tables tables = { paths, components };
    int32_t files[] = { 0, 1 };
    const rf_array array = array_i32(RF_SHAPE(2), files);
    rf_dataset *numbers, *rows;
    scratch_write("a.csv", "1,2,3\n4,5,6\n");
    scratch_write("b.csv", "7,8,9\n");
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &numbers));
    OK(join_tables(numbers, &tables, &rows));
    rf_dataset_destroy(&numbers);
    expect_first(&rows, 0, RF_SHAPE(2));
}

static rf_result cut_windows(const rf_dataset *table, rf_dataset **out)
{
    rf_dataset *windows, *shuffled;
    const rf_window_part parts[] = {
        { .component = 0, .length = 24 }, /* 24 rows: f32 [24, 3] */
        { .component = 1, .offset = 24 }, /* of the row that follows them: a scalar */
    };
    const rf_windows_params day = { .parts = parts, .num_parts = 2 };
    TRY(rf_dataset_windows(table, &day, &windows));
    TRY(rf_dataset_shuffle(windows, (uint64_t)rf_dataset_cardinality(windows), 1, RF_SHUFFLE_EACH_PASS, &shuffled));
    rf_dataset_destroy(&windows);
    *out = shuffled;
    return RF_OK;
}

static rf_result learn_layer(const rf_dataset *train, rf_layer **layers)
{
    rf_array mean, variance;
    TRY(rf_dataset_moments(train, NULL, &mean, &variance));
    const rf_normalization_params learned = { .mean = &mean, .variance = &variance };
    TRY(rf_layer_normalization(&learned, &layers[0]));
    rf_array_free(&mean);
    rf_array_free(&variance);
    return RF_OK;
}

static rf_result mix_sources(const rf_dataset *common, const rf_dataset *rare, rf_dataset **out)
{
    rf_dataset *mixed;
    const rf_dataset *const sources[] = { common, rare };
    static const double shares[] = { 0.75, 0.25 };
    const rf_sample_params mix = { .weights = shares, .seed = 1, .stop_on_empty = true };
    TRY(rf_dataset_sample(sources, 2, &mix, &mixed));
    *out = mixed;
    return RF_OK;
}

TEST(measurements)
{
    float features[30 * 3];
    int32_t labels[30];
    for (int i = 0; i < 90; i++) features[i] = (float)i;
    for (int i = 0; i < 30; i++) labels[i] = i;
    const rf_array arrays[] = { array_f32(RF_SHAPE(30, 3), features), array_i32(RF_SHAPE(30), labels) };
    rf_dataset *table, *windows, *mixed;
    rf_layer *layer;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &table));
    OK(cut_windows(table, &windows));
    assert_int_equal(rf_dataset_cardinality(windows), 6);
    expect_first(&windows, 0, RF_SHAPE(24, 3));
    OK(learn_layer(table, &layer));
    rf_layer_destroy(&layer);
    OK(mix_sources(table, table, &mixed));
    expect_first(&mixed, 0, RF_SHAPE(3));
    rf_dataset_destroy(&table);
}

static rf_result vary_images(const rf_dataset *images, rf_dataset **out)
{
    rf_dataset *colored, *moved, *erased;
    const rf_color_jitter_params color = { .brightness = 0.2f, .contrast = 0.2f, .saturation = 0.2f, .hue = 0.05f };
    const rf_affine_params affine = { .degrees = 10, .zoom = { 0.9f, 1.1f }, .fill_mode = RF_FILL_REFLECT };
    TRY(rf_dataset_map_color_jitter(images, 0, 1, &color, &colored));
    TRY(rf_dataset_map_affine(colored, 0, 1, &affine, &moved));
    TRY(rf_dataset_map_erase(moved, 0, 1, NULL, &erased));
    forget(colored, moved, NULL);
    *out = erased;
    return RF_OK;
}

static rf_result read_images(rf_dataset **out)
{
    rf_dataset *images, *shuffled, *scaled, *batches, *ahead;
    const rf_image_directory_params flowers = { .directory = "flowers", .height = 180, .width = 180 };
    TRY(rf_dataset_from_image_directory(&flowers, &images));
    TRY(rf_dataset_shuffle(images, (uint64_t)rf_dataset_cardinality(images), 1, RF_SHUFFLE_EACH_PASS, &shuffled));
    TRY(rf_dataset_map_scale_u8(shuffled, 0, &scaled));
    TRY(rf_dataset_batch(scaled, 32, RF_REMAINDER_KEEP, &batches));
    TRY(rf_dataset_parallel(batches, 0, &ahead)); /* a thread for each processor */
    forget(images, shuffled, scaled);
    rf_dataset_destroy(&batches);
    *out = ahead;
    return RF_OK;
}

static rf_result read_good_images(const rf_dataset *images, rf_dataset **out)
{
    rf_dataset *shuffled, *good, *batches;
    TRY(rf_dataset_shuffle(images, (uint64_t)rf_dataset_cardinality(images), 1, RF_SHUFFLE_EACH_PASS,
                           &shuffled)); /* names: no memory */
    TRY(rf_dataset_ignore_errors(shuffled, RF_IGNORE_WITH_WARNING, &good));
    TRY(rf_dataset_batch(good, 32, RF_REMAINDER_KEEP, &batches));
    forget(shuffled, good, NULL);
    *out = batches;
    return RF_OK;
}

TEST(images)
{
    rf_dataset *found, *good = NULL;
    rf_iterator *iterator;
    const rf_element *element;
    FAILS(read_images(&found), RF_ERROR_NOT_FOUND, "flowers");
    assert_int_equal(system("mkdir -p flowers/rose"), 0);
    scratch_write("flowers/rose/damaged.png", "no picture");
    OK(read_images(&found));
    rf_dataset_destroy(&found);
    const rf_image_directory_params flowers = { .directory = "flowers", .height = 180, .width = 180 };
    OK(rf_dataset_from_image_directory(&flowers, &found));
    rf_dataset *varied;
    OK(vary_images(found, &varied));
    rf_dataset_destroy(&varied);
    OK(read_good_images(found, &good));
    OK(rf_iterator_create(good, 0, &iterator));
    assert_int_equal(rf_iterator_next(iterator, &element), RF_END);
    assert_int_equal(rf_dataset_ignored_errors(good), 1);
    rf_iterator_destroy(&iterator);
    forget(found, good, NULL);
}

/* ---- text.md ---- */

static rf_result learn_words(const char *const *paths, uint32_t num_paths, rf_tokenizer **out)
{
    rf_text_lines *lines;
    rf_tokenizer *tokenizer;
    const rf_tokenizer_params params = { .kind = RF_TOKENIZER_WORDS, .max_tokens = 1000 };
    TRY(rf_text_lines_read(paths, num_paths, &lines));
    TRY(rf_tokenizer_train(&params, rf_text_lines_texts(lines), rf_text_lines_sizes(lines), rf_text_lines_count(lines),
                           &tokenizer));
    TRY(rf_tokenizer_save(tokenizer, "words.json"));
    rf_text_lines_destroy(&lines);
    *out = tokenizer;
    return RF_OK;
}

static rf_result make_windows(const rf_tokenizer *tokenizer, const char *text, size_t size, rf_dataset **out)
{
    rf_array tokens;
    rf_dataset *windows; /* elements: (tokens i32 [64], the token that follows each i32 [64]) */
    TRY(rf_tokenizer_encode(tokenizer, text, size, &tokens));
    TRY(rf_dataset_from_tokens(&tokens, 64, 1, &windows));
    rf_array_free(&tokens);
    *out = windows;
    return RF_OK;
}

static rf_result pad_texts(const rf_tokenizer *tokenizer, const char *const *texts, const size_t *sizes,
                           uint64_t num_texts, rf_array labels, rf_dataset **out)
{
    rf_dataset *data;
    rf_array rows; /* i32 [num_texts, 100] */
    const rf_sequence_pad_params pad = { .length = 100, .padding = RF_SEQUENCE_POST };
    TRY(rf_tokenizer_encode_padded(tokenizer, texts, sizes, num_texts, &pad, &rows));
    const rf_dataset_arrays_params both = { .arrays = (rf_array[]){ rows, labels }, .num_arrays = 2 };
    TRY(rf_dataset_from_arrays(&both, &data));
    rf_array_free(&rows);
    *out = data;
    return RF_OK;
}

TEST(texts)
{
    static const char *const paths[] = { "one.txt", "two.txt" }, *const sentences[] = { "the cat sat", "the dog" };
    static const size_t sizes[] = { 11, 7 };
    char text[400] = "";
    int32_t classes[] = { 0, 1 };
    rf_tokenizer *tokenizer;
    rf_dataset *data;
    scratch_write("one.txt", "The cat sat down.\n\nThe dog stood.\n");
    scratch_write("two.txt", "The bird flew.\n");
    OK(learn_words(paths, 2, &tokenizer));
    assert_int_equal(access("words.json", R_OK), 0);
    OK(read_lines(paths, tokenizer, &data));
    expect_first(&data, 0, RF_SHAPE(3, 64));
    for (int i = 0; i < 80; i++) strcat(text, "cat ");
    OK(make_windows(tokenizer, text, strlen(text), &data));
    expect_first(&data, 1, RF_SHAPE(64));
    OK(pad_texts(tokenizer, sentences, sizes, 2, array_i32(RF_SHAPE(2), classes), &data));
    expect_first(&data, 0, RF_SHAPE(100));
    rf_tokenizer_destroy(&tokenizer);
}

static rf_result encode_pair(const char *question, const char *answer, rf_array *tokens_out, rf_array *types_out)
{
    rf_tokenizer *tokenizer;
    rf_array tokens, types;
    const rf_tokenizer_encode_params both = { .pair = answer, .pair_size = strlen(answer) };
    TRY(rf_tokenizer_load("tokenizer.json", &tokenizer));
    TRY(rf_tokenizer_encode_with(tokenizer, question, strlen(question), &both, &tokens, &types));
    rf_tokenizer_destroy(&tokenizer);
    *tokens_out = tokens;
    *types_out = types;
    return RF_OK;
}

TEST(pairs)
{
    rf_array tokens, types;
    scratch_write("tokenizer.json",
                  "{\"version\": \"1.0\", \"added_tokens\": [],"
                  " \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\","
                  "             \"vocab\": {\"?\": 0, \"|\": 1, \"who\": 2, \"she\": 3}},"
                  " \"pre_tokenizer\": {\"type\": \"Whitespace\"},"
                  " \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"|\", 1], \"cls\": [\"?\", 0]}}");
    OK(encode_pair("who", "she", &tokens, &types));
    assert_memory_equal(tokens.data, ((int32_t[]){ 0, 2, 1, 3, 1 }), 5 * sizeof(int32_t));
    assert_memory_equal(types.data, ((int32_t[]){ 0, 0, 0, 1, 1 }), 5 * sizeof(int32_t));
    rf_array_free(&tokens);
    rf_array_free(&types);
}

/* ---- writing token by token ---- */

enum { TEXTS = 2, HEADS = 2, LONGEST = 8, WIDTH = 4 };

typedef struct writer {
    rf_model *model;
    rf_layer *attention;
    rf_variable *keys, *values;
    bool by_layer;
} writer;

static rf_result make_room(rf_strategy *strategy, int64_t texts, int64_t heads, int64_t longest, int64_t key_dim,
                           rf_variable **out)
{
    rf_variable *keys;
    /* once for each attention; the other variable with value_dim */
    const rf_variable_params room = { .name = "cache/key",
                                      .shape = RF_SHAPE(texts, heads, longest, key_dim),
                                      .initializer = { .kind = RF_INIT_ZEROS },
                                      .not_trainable = true };
    TRY(rf_variable_create(strategy, &room, &keys));
    *out = keys;
    return RF_OK;
}

static rf_tensor attend(rf_trace *t, rf_tensor query, rf_tensor key, rf_tensor value, rf_tensor place,
                        rf_variable *keys, rf_variable *values)
{
    rf_tensor y;
    /* query, key and value [texts, heads, t, ...] of the new tokens, the first of which stands at `place` */
    key = rf_slice_update(t, rf_variable_tensor(t, keys), key, place, 2);
    value = rf_slice_update(t, rf_variable_tensor(t, values), value, place, 2);
    y = rf_attention(t, query, key, value, &(rf_attention_params){ .causal = true, .first_query = place });
    rf_variable_update(t, keys, key, RF_AGGREGATE_FIRST_REPLICA);
    rf_variable_update(t, values, value, RF_AGGREGATE_FIRST_REPLICA);
    return y;
}

static rf_tensor attend_by_layer(rf_trace *t, rf_model *model, rf_layer *attention, rf_tensor x, rf_tensor place,
                                 rf_variable *keys, rf_variable *values)
{
    rf_layer_apply_params p = { .in = &x,
                                .num_in = 1,
                                .start_index = place,
                                .cache = { rf_variable_tensor(t, keys), rf_variable_tensor(t, values) } };
    rf_tensor y[3]; /* the result; keys and values to be kept */
    rf_layer_apply(t, model, attention, &p, y, 3);
    rf_variable_update(t, keys, y[1], RF_AGGREGATE_FIRST_REPLICA);
    rf_variable_update(t, values, y[2], RF_AGGREGATE_FIRST_REPLICA);
    return y[0];
}

/* Inputs: one example [1, TEXTS, 1, HEADS * WIDTH], and the place. */
static rf_result write_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const writer *w = user;
    const rf_tensor x = rf_squeeze(t, rf_slice(t, in[0], (const int64_t[]){ 0 }, (const int64_t[]){ 1 }, NULL, 1), 0);
    const rf_tensor place =
        rf_reshape(t, rf_slice(t, in[1], (const int64_t[]){ 0 }, (const int64_t[]){ 1 }, NULL, 1), RF_SHAPE(1));
    if (w->by_layer) {
        out[0] = rf_reduce_sum(t, attend_by_layer(t, w->model, w->attention, x, place, w->keys, w->values), NULL, 0,
                               RF_DROP_DIMS);
    } else {
        const rf_tensor heads =
            rf_transpose(t, rf_reshape(t, x, RF_SHAPE(TEXTS, 1, HEADS, WIDTH)), (const int32_t[]){ 0, 2, 1, 3 });
        out[0] = rf_reduce_sum(t, attend(t, heads, heads, heads, place, w->keys, w->values), NULL, 0, RF_DROP_DIMS);
    }
    return rf_trace_status(t);
}

static rf_tensor whole_sequence(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    return rf_layer_call(t, model, ((const writer *)user)->attention, x, mode);
}

/* The first token attends to itself alone: the mean of its values is its values. Keys of the second stand beside. */
static void write_two_tokens(rf_strategy *strategy, bool by_layer)
{
    writer w = { .by_layer = by_layer };
    float x[TEXTS * HEADS * WIDTH], sums[2] = { 0 }, kept[TEXTS * HEADS * LONGEST * WIDTH];
    rf_function *function;
    OK(make_room(strategy, TEXTS, HEADS, LONGEST, WIDTH, &w.keys));
    OK(make_room(strategy, TEXTS, HEADS, LONGEST, WIDTH, &w.values));
    OK(rf_model_create_custom(strategy, whole_sequence, &w, &w.model));
    OK(rf_layer_multi_head_attention(
        &(rf_multi_head_attention_params){ .num_heads = HEADS, .key_dim = WIDTH, .causal = true }, &w.attention));
    OK(rf_model_add_layer(w.model, w.attention));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = write_step, .user = &w, .num_outputs = 1 },
                          &function));
    for (int32_t place = 0; place < 2; place++) {
        rf_per_replica *result;
        for (int i = 0; i < TEXTS * HEADS * WIDTH; i++) x[i] = (float)(1 + place);
        const rf_element batch = { .num_components = 2,
                                   .component = { array_f32(RF_SHAPE(1, TEXTS, 1, HEADS * WIDTH), x),
                                                  array_i32(RF_SHAPE(1, 1), &place) } };
        OK(rf_strategy_run(strategy, function, &batch, &result));
        OK(rf_strategy_reduce(strategy, RF_REDUCE_SUM, result, &sums[place]));
    }
    if (!by_layer) assert_true(sums[0] > TEXTS * HEADS * WIDTH - 0.01f && sums[0] < TEXTS * HEADS * WIDTH + 0.01f);
    assert_true(sums[1] != sums[0]);
    OK(rf_variable_read(w.keys, kept));
    assert_true(kept[0] != 0 && kept[WIDTH] != 0 && kept[2 * WIDTH] == 0);
    rf_function_destroy(&function);
    rf_model_destroy(&w.model);
    rf_variable_destroy(&w.keys);
    rf_variable_destroy(&w.values);
}

TEST(cache)
{
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("not installed: llvmpipe");
    write_two_tokens(strategy, false);
    write_two_tokens(strategy, true);
    rf_strategy_destroy(&strategy);
}

/* ---- optimizers.md, from-keras.md, custom.md ---- */

static rf_result make_scheduled(rf_strategy *strategy, rf_optimizer **out)
{
    rf_optimizer *optimizer;
    const rf_schedule schedule = {
        .kind = RF_SCHEDULE_COSINE_DECAY, .initial = 1e-3, .decay_steps = 10000, .warmup_steps = 500
    };
    TRY(rf_optimizer_create(
        strategy,
        &(rf_optimizer_params){
            .kind = RF_OPTIMIZER_ADAMW, .schedule = &schedule, .weight_decay = 0.01, .global_clip_norm = 1 },
        &optimizer));
    *out = optimizer;
    return RF_OK;
}

static rf_result make_grouped(rf_strategy *strategy, rf_optimizer **out)
{
    rf_optimizer *optimizer;
    const rf_parameter_group groups[] = { { .names = "*bias,*gamma,*beta", .no_weight_decay = true },
                                          { .names = "embedding/*", .rate_factor = 0.1 } };
    TRY(rf_optimizer_create(
        strategy,
        &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAMW, .weight_decay = 0.01, .groups = groups, .num_groups = 2 },
        &optimizer));
    *out = optimizer;
    return RF_OK;
}

static rf_result make_small(rf_strategy *strategy, rf_optimizer **out)
{
    rf_optimizer *optimizer;
    TRY(rf_optimizer_create(strategy,
                            &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAMW, .state_type = RF_OPTIMIZER_STATE_8BIT },
                            &optimizer));
    *out = optimizer;
    return RF_OK;
}

static rf_result train_as_keras(rf_strategy *strategy, rf_optimizer *optimizer, const rf_dataset *data, rf_model **out)
{
    rf_model *model;
    rf_layer *layers[2];
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &layers[0]));
    TRY(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &layers[1]));
    TRY(rf_model_create_sequential(strategy, layers, 2, &RF_SHAPE(784), &model));
    TRY(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer,
                                     .loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true },
                                     .metrics = (rf_metric_kind[]){ RF_METRIC_SPARSE_CATEGORICAL_ACCURACY },
                                     .num_metrics = 1 }));
    TRY(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 2 }, NULL));
    *out = model;
    return RF_OK;
}

struct ops {
    int made;
};

static rf_result make_layer(void *user, const char *name, const char *config, rf_layer **out)
{
    (void)name, (void)config;
    ((struct ops *)user)->made++;
    return rf_layer_dense(&(rf_dense_params){ .units = 1 }, out);
}

static rf_result load_own_layer(rf_strategy *strategy, rf_model **out)
{
    static struct ops ops;
    rf_model *model;
    TRY(rf_custom_layer_register("swish", make_layer, &ops));
    TRY(rf_model_load(strategy, "model.rfck", &model));
    *out = model;
    return RF_OK;
}

TEST(training)
{
    static float pixels[8 * 784];
    static int32_t labels[8];
    const rf_array arrays[] = { array_f32(RF_SHAPE(8, 784), pixels), array_i32(RF_SHAPE(8), labels) };
    rf_dataset *rows, *data;
    rf_optimizer *scheduled, *grouped, *small;
    rf_model *model, *loaded;
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("not installed: llvmpipe");
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &rows));
    OK(rf_dataset_batch(rows, 4, RF_REMAINDER_KEEP, &data));
    OK(make_scheduled(strategy, &scheduled));
    OK(make_grouped(strategy, &grouped));
    OK(make_small(strategy, &small));
    OK(train_as_keras(strategy, scheduled, data, &model));
    assert_int_equal(rf_optimizer_iterations(scheduled), 4);
    assert_true(rf_optimizer_learning_rate(scheduled) > 0 && rf_optimizer_learning_rate(scheduled) < 1e-4);
    FAILS(load_own_layer(strategy, &loaded), RF_ERROR_NOT_FOUND, "model.rfck");
    rf_model_destroy(&model);
    rf_optimizer_destroy(&scheduled);
    rf_optimizer_destroy(&grouped);
    rf_optimizer_destroy(&small);
    forget(rows, data, NULL);
    rf_strategy_destroy(&strategy);
}

/* ---- observing.md ---- */

static rf_result tell_loss(rf_strategy *strategy, uint32_t epoch, uint32_t epochs, double loss)
{
    const char *const names[] = { "loss" };
    const double values[] = { loss };
    const rf_progress progress = {
        .epoch = epoch, .num_epochs = epochs, .names = names, .values = values, .num_values = 1
    };
    TRY(rf_strategy_set_progress(strategy, &progress));
    return RF_OK;
}

static rf_result one_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = in[0];
    return rf_trace_status(t);
}

TEST(status)
{
    float row[2] = { 1, 2 };
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(2, 1), row) } };
    const rf_status_params from = { .directory = "run" };
    char *text;
    rf_function *function;
    OK(setenv("RINGFIRE_STATUS", "run", 1) == 0 ? RF_OK : RF_ERROR_IO);
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("not installed: llvmpipe");
    OK(tell_loss(strategy, 1, 4, 0.25)); /* nobody can read it yet */
    OK(rf_function_create(strategy, &(rf_function_params){ .step = one_step, .num_outputs = 1, .training = true },
                          &function));
    unsetenv("RINGFIRE_STATUS");
    OK(tell_loss(strategy, 2, 4, 0.125));
    OK(rf_strategy_run(strategy, function, &batch, NULL));
    OK(rf_status_read(&from, &text));
    assert_non_null(strstr(text, "\"steps\":1,"));
    assert_non_null(strstr(text, "\"epoch\":2,\"epochs\":4,\"batch\":1,\"batches\":null"));
    assert_non_null(strstr(text, "\"values\":{\"loss\":0.125}"));
    rf_string_free(text);
    rf_function_destroy(&function);
    rf_strategy_destroy(&strategy);
    FAILS(rf_status_read(&from, &text), RF_ERROR_NOT_FOUND, "RINGFIRE_STATUS=run");
}

static char folder[SCRATCH_PATH];

static int enter(void **state)
{
    (void)state;
    return chdir(scratch(folder));
}

static int leave(void **state)
{
    (void)state;
    const int failed = chdir("/");
    scratch_remove(folder);
    return failed;
}

TESTS(guides, enter, leave)
