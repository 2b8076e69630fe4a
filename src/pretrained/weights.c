/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/quantize.h"
#include "persist/archive/writer.h"
#include "persist/arrays/interchange_files.h"
#include "persist/json.h"
#include "pretrained/names.h"
#include "train/model/model.h"

/* ---- names ---- */

static const char *without_prefix(const rf_weights *weights, const char *name)
{
    const char *prefix = weights->architecture->prefix;
    const size_t length = prefix ? strlen(prefix) : 0;
    return length > 0 && strncmp(name, prefix, length) == 0 ? name + length : name;
}

static rf_result add_weight(rf_weights *weights, const rf_tensor_entry *tensor, const rf_pretrained_tensor *row,
                            const rf_name_numbers *numbers)
{
    RF_TRY(RF_VEC_GROW(weights));
    rf_weight *w = &weights->items[weights->count];
    *w = (rf_weight){ .tensor = tensor, .row = row };
    if (row->variable && !(w->name = rf_name_fill(row->variable, numbers))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    weights->count++;
    return RF_OK;
}

/* Every row that a tensor is of: those of its parts, or of variables of which the model has one. */
static rf_result match_tensor(rf_weights *weights, const rf_tensor_entry *tensor)
{
    const rf_pretrained_architecture *a = weights->architecture;
    const uint32_t before = weights->count;
    for (uint32_t i = 0; i < a->num_tensors; i++) {
        rf_name_numbers numbers;
        if (rf_name_match(a->tensors[i].tensor, without_prefix(weights, tensor->is.name), &numbers))
            RF_TRY(add_weight(weights, tensor, &a->tensors[i], &numbers));
    }
    if (weights->count > before) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': tensor '%.200s' has no place in a model of type '%s'",
                   weights->files->directory, tensor->is.name, a->model_type);
}

/* By the variable's name, and then by the row. */
static int compare_variables(const void *x, const void *y)
{
    const rf_weight *a = *(const rf_weight *const *)x, *b = *(const rf_weight *const *)y;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->row > b->row) - (a->row < b->row);
}

static rf_result list_variables(rf_weights *weights)
{
    weights->num_named = 0;
    if (!weights->by_name) weights->by_name = RF_NEW_ARRAY(rf_weight *, weights->count);
    if (!weights->by_name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < weights->count; i++)
        if (weights->items[i].name) weights->by_name[weights->num_named++] = &weights->items[i];
    if (weights->num_named > 0)
        qsort(weights->by_name, weights->num_named, sizeof(*weights->by_name), compare_variables);
    return RF_OK;
}

rf_result rf_weights_match(rf_weights *weights, rf_tensor_files *files, const rf_pretrained_architecture *architecture)
{
    *weights = (rf_weights){ .files = files, .architecture = architecture, .new_heads = weights->new_heads };
    for (uint32_t i = 0; i < files->num_entries; i++) RF_TRY(match_tensor(weights, &files->entries[i]));
    return list_variables(weights);
}

void rf_weights_clear(rf_weights *weights)
{
    for (uint32_t i = 0; i < weights->count; i++) rf_free(weights->items[i].name);
    rf_free(weights->items);
    rf_free(weights->by_name);
    *weights = (rf_weights){ 0 };
}

/* Words of a tensor whose variables are in few bits; 0: they are not. */
static uint64_t words_of(const rf_weight *w, const rf_strategy *strategy)
{
    static const char table[] = "/embeddings";
    const rf_shape shape = w->tensor->is.shape;
    const size_t length = strlen(w->name), end = sizeof(table) - 1;
    const bool is_table = length >= end && strcmp(w->name + length - end, table) == 0;
    const rf_quantization kind = rf_strategy_quantization(strategy, w->name, is_table);
    if (shape.rank != 2 || kind == RF_QUANTIZATION_NONE) return 0;
    const bool lines_first = is_table || w->row->layout == RF_PRETRAINED_TRANSPOSED;
    return rf_quantized_layout_make(kind, (uint64_t)shape.dim[!lines_first], (uint64_t)shape.dim[lines_first]).words;
}

rf_variable_room rf_weights_room(const rf_weights *weights, const rf_strategy *strategy)
{
    const rf_tensor_entry *last = NULL;
    rf_variable_room room = { 0 };
    for (uint32_t i = 0; i < weights->count; i++) {
        const rf_weight *w = &weights->items[i];
        if (w->name && !w->tensor->is.unsupported_type) {
            const uint64_t words = words_of(w, strategy), elements = (uint64_t)rf_shape_count(w->tensor->is.shape);
            *(words > 0 ? &room.matrices : &room.variables) += 1;
            /* of all parts of a tensor */
            if (w->tensor != last) *(words > 0 ? &room.words : &room.elements) += words > 0 ? words : elements;
        }
        last = w->tensor;
    }
    return room;
}

/* ---- shapes ---- */

/* Whether the first dimensions of a shape have `rows` elements together; a scalar part has 1. */
static bool splits_at(rf_shape shape, uint64_t rows)
{
    uint64_t product = 1;
    for (int32_t i = 0; i < shape.rank && product < rows; i++) product *= (uint64_t)shape.dim[i];
    return product == rows;
}

/* Whether neighbouring dimensions of `shape` can be joined to those of `joined`, which may begin with ones. */
static bool joins_to(rf_shape shape, rf_shape joined)
{
    int32_t at = 0, first = 0;
    while (first + 1 < joined.rank && joined.dim[first] == 1) first++;
    for (int32_t i = first; i < joined.rank; i++) {
        int64_t product = 1;
        do {
            if (at == shape.rank) return false;
            product *= shape.dim[at++];
        } while (product < joined.dim[i]);
        if (product != joined.dim[i]) return false;
    }
    return at == shape.rank;
}

static bool is_transposed(const rf_weight *w)
{
    return w->row->layout == RF_PRETRAINED_TRANSPOSED;
}

/* Places of the kernel [places..., in, out] that a tensor [out, in, places...] holds; 0: another kernel's. */
static uint64_t find_places(rf_shape tensor, rf_shape kernel)
{
    uint64_t places = 1;
    for (int32_t i = 2; i < tensor.rank; i++) places *= (uint64_t)tensor.dim[i];
    for (int32_t i = 2; places > 1 && i < tensor.rank; i++)
        if (i > kernel.rank || kernel.dim[i - 2] != tensor.dim[i]) return 0;
    return places;
}

/* Finds the variable as a matrix, and the outputs of the tensor: false where they do not fit. */
static bool find_matrix(rf_weight *w, rf_shape shape)
{
    const rf_shape is = w->tensor->is.shape;
    const bool transposed = is_transposed(w);
    const uint64_t count = (uint64_t)rf_shape_count(shape);
    w->places = 1;
    if (w->row->part == 0 && !transposed) {
        w->in = count;
        w->out = w->total = 1;
        return joins_to(shape, is);
    }
    if (is.rank < 1 || (is.rank > 2 && !transposed)) return false;
    if (transposed) w->places = find_places(is, shape);
    w->in = is.rank == 1 ? 1 : transposed ? (uint64_t)is.dim[1] * w->places : (uint64_t)is.dim[0];
    w->total = (uint64_t)is.dim[transposed || is.rank == 1 ? 0 : 1];
    if (w->in == 0 || count % w->in != 0 || !splits_at(shape, w->in)) return false;
    w->out = count / w->in;
    if (w->out > RF_WEIGHTS_WINDOW || (w->places > 1 && w->in > RF_WEIGHTS_WINDOW)) return false;
    return w->row->part == 0 ? w->out == w->total : w->out <= w->total;
}

static rf_result check_shape(const rf_weights *weights, const rf_weight *w, rf_shape shape)
{
    char a[96], b[96];
    rf_weight found = *w;
    const rf_archive_entry *is = &w->tensor->is;
    const char *directory = weights->files->directory;
    if (is->unsupported_type || rf_dtype_size(is->dtype) == 0 || is->dtype == RF_I32 || is->dtype == RF_I64 ||
        is->dtype == RF_U8)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': tensor '%.200s' is of type %s; weights are F32, F16 or BF16",
                       directory, is->name, is->unsupported_type ? is->unsupported_type : rf_dtype_name(is->dtype));
    if (rf_shape_count(shape) > 0 && find_matrix(&found, shape)) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "'%s': tensor '%.200s' is %s, which does not fit '%s' %s%s of a model of this config.json",
                   directory, is->name, rf_shape_format(is->shape, a, sizeof(a)), w->name,
                   rf_shape_format(shape, b, sizeof(b)), is_transposed(w) ? ", transposed," : "");
}

/* ---- variables ---- */

/* Place of the first of by_name that does not come before a name. */
static uint32_t find_name(const rf_weights *weights, const char *name)
{
    uint32_t first = 0;
    for (uint32_t count = weights->num_named; count > 0;) {
        const uint32_t half = count / 2;
        const bool before = strcmp(weights->by_name[first + half]->name, name) < 0;
        first += before ? half + 1 : 0;
        count = before ? count - half - 1 : half;
    }
    return first;
}

static bool is_named(const rf_weights *weights, uint32_t at, const char *name)
{
    return at < weights->num_named && strcmp(weights->by_name[at]->name, name) == 0;
}

const rf_weight *rf_weights_source(const rf_weights *weights, const char *name)
{
    const uint32_t at = find_name(weights, name);
    return is_named(weights, at, name) ? weights->by_name[at] : NULL;
}

/* Names the tensor that the files should have. */
static rf_result fail_missing(const rf_weights *weights, const char *variable)
{
    const rf_pretrained_architecture *a = weights->architecture;
    const char *directory = weights->files->directory;
    rf_name_numbers numbers;
    for (uint32_t i = 0; i < a->num_tensors; i++) {
        if (!a->tensors[i].variable || !rf_name_match(a->tensors[i].variable, variable, &numbers)) continue;
        char *tensor = rf_name_fill(a->tensors[i].tensor, &numbers);
        if (!tensor) return RF_ERROR_OUT_OF_HOST_MEMORY;
        const rf_result r =
            RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no tensor '%s', which is to be '%s'", directory, tensor, variable);
        rf_free(tensor);
        return r;
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "the table of model type '%s' has no row for variable '%s'",
                   a->model_type, variable);
}

/* The row of a head that may begin anew; NULL: the variable is of none. */
static const rf_pretrained_tensor *find_new_head(const rf_weights *weights, const char *variable,
                                                 rf_name_numbers *numbers)
{
    const rf_pretrained_architecture *a = weights->architecture;
    for (uint32_t i = 0; weights->new_heads && i < a->num_tensors; i++) {
        const rf_pretrained_tensor *row = &a->tensors[i];
        if (row->variable && rf_name_match(row->variable, variable, numbers)) return row->head ? row : NULL;
    }
    return NULL;
}

rf_result rf_weights_admit(const rf_weights *weights, const char *name, rf_shape shape)
{
    rf_name_numbers numbers;
    const rf_weight *w = rf_weights_source(weights, name);
    rf_weight found = w ? *w : (rf_weight){ 0 };
    if (!find_new_head(weights, name, &numbers))
        return w ? check_shape(weights, w, shape) : fail_missing(weights, name);
    return w && find_matrix(&found, shape) ? check_shape(weights, w, shape) : 1;
}

/* The shape that a tensor of a head has: PyTorch's kernels are transposed. */
static rf_shape shape_in_file(const rf_pretrained_tensor *row, rf_shape shape)
{
    return row->layout == RF_PRETRAINED_TRANSPOSED && shape.rank == 2 ? RF_SHAPE(shape.dim[1], shape.dim[0]) : shape;
}

/* Names begin with the architecture's prefix, or it has none. */
static bool has_prefix(const rf_weights *weights)
{
    for (uint32_t i = 0; weights->architecture->prefix && i < weights->files->num_entries; i++) {
        const char *name = weights->files->entries[i].is.name;
        if (without_prefix(weights, name) != name) return true;
    }
    return !weights->architecture->prefix;
}

/* Adds tensors of heads that no file has. Entries move, so that all are matched anew. */
static rf_result add_missing_heads(rf_weights *weights, const rf_model *model)
{
    const uint32_t before = weights->files->num_added;
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_model_variable *v = &model->tracked.items[i];
        rf_name_numbers numbers;
        const rf_pretrained_tensor *row = find_new_head(weights, v->name, &numbers);
        if (!row || rf_weights_source(weights, v->name)) continue;
        char *name = rf_name_fill(row->tensor, &numbers);
        const rf_shape shape = shape_in_file(row, rf_variable_shape(v->variable));
        const rf_result r =
            name ? rf_tensor_files_add(weights->files, name, shape, RF_F32) : RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_free(name);
        RF_TRY(r);
    }
    if (weights->files->num_added == before) return RF_OK;
    const bool adds_prefix = !has_prefix(weights);
    rf_tensor_files *files = weights->files;
    const rf_pretrained_architecture *architecture = weights->architecture;
    const bool new_heads = weights->new_heads;
    rf_weights_clear(weights);
    weights->new_heads = new_heads;
    RF_TRY(rf_weights_match(weights, files, architecture));
    weights->adds_prefix = adds_prefix;
    return RF_OK;
}

static bool was_added(const rf_tensor_files *files, const char *name)
{
    for (uint32_t i = 0; i < files->num_added; i++)
        if (files->added[i] == name) return true;
    return false;
}

/* Heads whose tensors have been added, or do not fit and get the shape that the model has. */
static void mark_new_heads(rf_weights *weights)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        rf_weight *w = &weights->items[i];
        rf_name_numbers numbers;
        if (!w->variable || !find_new_head(weights, w->name, &numbers)) continue;
        const rf_shape shape = rf_variable_shape(w->variable);
        w->before = w->tensor->is.shape;
        w->is_new = was_added(weights->files, w->tensor->is.name) || !find_matrix(w, shape);
        if (w->is_new)
            weights->files->entries[w->tensor - weights->files->entries].is.shape = shape_in_file(w->row, shape);
    }
}

/* Gives each weight the variable of its name. */
static void find_variables(const rf_weights *weights, const rf_model *model)
{
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_model_variable *v = &model->tracked.items[i];
        for (uint32_t at = find_name(weights, v->name); is_named(weights, at, v->name); at++)
            weights->by_name[at]->variable = v->variable;
    }
}

/* Where several rows are for one tensor, without parts, the first counts whose variable the model has. */
static void drop_others(rf_weights *weights)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < weights->count; i++) {
        rf_weight *w = &weights->items[i];
        const rf_weight *last = kept > 0 ? &weights->items[kept - 1] : NULL;
        const bool again = last && last->tensor == w->tensor;
        if (again && w->row->part == 0 && last->row->part == 0 && (last->variable || !w->variable)) {
            rf_free(w->name);
            continue;
        }
        if (again && w->row->part == 0 && last->row->part == 0) rf_free(weights->items[--kept].name);
        weights->items[kept++] = *w;
    }
    weights->count = kept;
}

/* Outputs of the parts of tensors that have several, which must be all that they have. */
static rf_result place_parts(const rf_weights *weights)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < weights->count; i++) {
        rf_weight *w = &weights->items[i];
        const bool ends = i + 1 == weights->count || weights->items[i + 1].tensor != w->tensor;
        if (!w->variable) continue;
        w->first = first;
        first = ends ? 0 : first + w->out;
        if (ends && w->first + w->out != w->total)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "'%s': tensor '%.200s' has %llu outputs, of which the model of this config.json takes %llu",
                           weights->files->directory, w->tensor->is.name, (unsigned long long)w->total,
                           (unsigned long long)(w->first + w->out));
    }
    return RF_OK;
}

rf_result rf_weights_bind(rf_weights *weights, rf_model *model)
{
    RF_TRY(add_missing_heads(weights, model));
    find_variables(weights, model);
    drop_others(weights);
    mark_new_heads(weights);
    RF_TRY(list_variables(weights));
    for (uint32_t i = 0; i < weights->count; i++) {
        rf_weight *w = &weights->items[i];
        if (!w->name || (w->row->optional && !w->variable)) continue;
        if (!w->variable)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': tensor '%.200s' has no place in the model of this config.json",
                           weights->files->directory, w->tensor->is.name);
        const rf_shape shape = rf_variable_shape(w->variable);
        RF_TRY(check_shape(weights, w, shape));
        (void)find_matrix(w, shape);
    }
    return place_parts(weights);
}

/* ---- what has become of them ---- */

static rf_result note_variable(const rf_weights *weights, const rf_model_variable *of, rf_weight_notes *notes)
{
    char a[96], b[96], detail[256] = "";
    const rf_weight *w = rf_weights_source(weights, of->name);
    if (!w || (w->is_new && was_added(weights->files, w->tensor->is.name)))
        return rf_weight_note_add(notes, RF_WEIGHT_MISSING, of->name, "", "");
    if (!w->is_new) return rf_weight_note_add(notes, RF_WEIGHT_LOADED, of->name, w->tensor->is.name, "");
    snprintf(detail, sizeof(detail), "%s %s, not %s%s", rf_dtype_name(w->tensor->is.dtype),
             rf_shape_format(w->before, a, sizeof(a)), rf_shape_format(rf_variable_shape(of->variable), b, sizeof(b)),
             is_transposed(w) ? " transposed" : "");
    return rf_weight_note_add(notes, RF_WEIGHT_MISMATCHED, of->name, w->tensor->is.name, detail);
}

rf_result rf_weights_note(const rf_weights *weights, const rf_model *model, rf_weight_notes *notes)
{
    for (uint32_t i = 0; i < model->tracked.count; i++) RF_TRY(note_variable(weights, &model->tracked.items[i], notes));
    for (uint32_t i = 0; i < weights->count; i++) {
        const rf_weight *w = &weights->items[i];
        if (w->variable && rf_weights_source(weights, w->name) == w) continue;
        RF_TRY(rf_weight_note_add(notes, RF_WEIGHT_LEFT_OVER, w->name ? w->name : "", w->tensor->is.name, ""));
    }
    return RF_OK;
}

/* ---- reading ---- */

uint64_t rf_weight_rows(const rf_weight *w)
{
    const uint64_t rows = RF_WEIGHTS_WINDOW / w->out;
    return rows == 0 ? 1 : rows < w->in ? rows : w->in;
}

/* `count` elements of the tensor from `at` on, as they are. */
static rf_result read_run(const rf_weights *weights, const rf_weight *w, uint64_t at, uint64_t count, void *raw)
{
    const uint64_t size = rf_dtype_size(w->tensor->is.dtype);
    return rf_tensor_files_read(weights->files, w->tensor, at * size, raw, count * size);
}

/* Where a row of a kernel's matrix is among the columns of its tensor, and the other way round. */
static uint64_t column_of(const rf_weight *w, uint64_t row)
{
    const uint64_t channels = w->in / w->places;
    return w->places == 1 ? row : row % channels * w->places + row / channels;
}

static uint64_t row_of(const rf_weight *w, uint64_t column)
{
    return w->places == 1 ? column : column % w->places * (w->in / w->places) + column / w->places;
}

/* raw [outputs, rows] of the tensor's type -> values [rows, outputs], in tiles that caches hold; of a kernel all rows.
 */
static void values_transpose(const rf_weight *w, const void *raw, uint64_t rows, float *values)
{
    enum { TILE = 32 };
    float tile[TILE];
    const rf_dtype dtype = w->tensor->is.dtype;
    const unsigned char *bytes = raw;
    for (uint64_t r = 0; r < rows; r += TILE)
        for (uint64_t o = 0; o < w->out; o++) {
            const uint64_t n = rows - r < TILE ? rows - r : TILE;
            rf_floats_widen(tile, bytes + (o * rows + r) * rf_dtype_size(dtype), dtype, n);
            for (uint64_t i = 0; i < n; i++) values[row_of(w, r + i) * w->out + o] = tile[i];
        }
}

/* Some rows of a kernel that is larger than a window: each output is read whole, and gives a number to each row. */
static rf_result read_kernel(const rf_weights *weights, const rf_weight *w, uint64_t begin, uint64_t end, float *values,
                             unsigned char *raw)
{
    const rf_dtype dtype = w->tensor->is.dtype;
    for (uint64_t o = 0; o < w->out; o++) {
        RF_TRY(read_run(weights, w, (w->first + o) * w->in, w->in, raw));
        for (uint64_t r = begin; r < end; r++)
            rf_floats_widen(values + (r - begin) * w->out + o, raw + column_of(w, r) * rf_dtype_size(dtype), dtype, 1);
    }
    return RF_OK;
}

static rf_result read_transposed(const rf_weights *weights, const rf_weight *w, uint64_t begin, uint64_t end,
                                 float *values, void *raw)
{
    const rf_dtype dtype = w->tensor->is.dtype;
    const uint64_t rows = end - begin;
    unsigned char *bytes = raw;
    if (rows != w->in && w->places > 1) return read_kernel(weights, w, begin, end, values, raw);
    if (rows == w->in) RF_TRY(read_run(weights, w, w->first * w->in, w->out * rows, raw));
    for (uint64_t o = 0; rows != w->in && o < w->out; o++)
        RF_TRY(read_run(weights, w, (w->first + o) * w->in + begin, rows, bytes + o * rows * rf_dtype_size(dtype)));
    values_transpose(w, raw, rows, values);
    return RF_OK;
}

rf_result rf_weight_read(const rf_weights *weights, const rf_weight *w, uint64_t begin, uint64_t end, float *values,
                         void *raw)
{
    const rf_dtype dtype = w->tensor->is.dtype;
    if (is_transposed(w)) return read_transposed(weights, w, begin, end, values, raw);
    if (w->out == w->total) {
        RF_TRY(read_run(weights, w, begin * w->out, (end - begin) * w->out, raw));
        rf_floats_widen(values, raw, dtype, (end - begin) * w->out);
        return RF_OK;
    }
    for (uint64_t i = begin; i < end; i++) {
        RF_TRY(read_run(weights, w, i * w->total + w->first, w->out, raw));
        rf_floats_widen(values + (i - begin) * w->out, raw, dtype, w->out);
    }
    return RF_OK;
}

/* ---- writing ---- */

/* The tensor that is being written, with the values of its variables. */
typedef struct writing {
    const rf_weights *weights;
    const rf_weight *first; /* NULL: none yet */
    uint32_t count;         /* its parts */
    float **values;         /* of each; room for as many as there are weights */
} writing;

static void forget_values(writing *s)
{
    for (uint32_t i = 0; i < s->count; i++) rf_free(s->values[i]);
    s->count = 0;
    s->first = NULL;
}

/* All of a tensor is in few bits, and as it was read. */
static bool keeps_bytes(const rf_weights *weights, const rf_tensor_entry *tensor)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        const rf_weight *w = &weights->items[i];
        if (w->tensor == tensor && w->variable && rf_variable_was_assigned(w->variable)) return false;
    }
    return true;
}

static int compare_tensors(const void *x, const void *y)
{
    const rf_weight *a = x, *b = y;
    return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static rf_result find_values(writing *s, const char *name)
{
    const rf_weights *weights = s->weights;
    rf_weight wanted = { .tensor = rf_tensor_files_find(weights->files, name) };
    if (!wanted.tensor) wanted.tensor = rf_tensor_files_find(weights->files, without_prefix(weights, name));
    if (s->first && s->first->tensor == wanted.tensor) return RF_OK;
    forget_values(s);
    s->first = bsearch(&wanted, weights->items, weights->count, sizeof(wanted), compare_tensors);
    if (!s->first) return RF_FAIL(RF_ERROR_INTERNAL, "tensor '%.200s' is not one of the files", name);
    while (s->first > weights->items && s->first[-1].tensor == wanted.tensor) s->first--;
    for (const rf_weight *w = s->first; w < weights->items + weights->count && w->tensor == wanted.tensor; w++) {
        if (!w->variable || keeps_bytes(weights, w->tensor)) continue;
        s->values[s->count] = RF_NEW_ARRAY(float, w->in * w->out);
        if (!s->values[s->count]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_variable_read(w->variable, s->values[s->count++]));
    }
    return RF_OK;
}

/* Elements [begin, end) of row `row` of the tensor. */
static void fill_row(const writing *s, uint64_t row, uint64_t begin, uint64_t end, float *out)
{
    const bool transposed = is_transposed(s->first);
    for (uint32_t p = 0; p < s->count; p++) {
        const rf_weight *w = s->first + p;
        const float *values = s->values[p];
        if (transposed) {
            if (row < w->first || row >= w->first + w->out) continue;
            for (uint64_t i = begin; i < end; i++) out[i - begin] = values[row_of(w, i) * w->out + row - w->first];
            continue;
        }
        const uint64_t from = begin > w->first ? begin : w->first;
        const uint64_t to = end < w->first + w->out ? end : w->first + w->out;
        if (from < to)
            memcpy(out + (from - begin), values + row * w->out + from - w->first, (size_t)(to - from) * sizeof(float));
    }
}

/* Bytes of a tensor as it is written: those of its file where it has no variable, or none but in few bits. */
static rf_result read_values(void *user, const char *name, uint64_t offset, void *data, uint64_t size)
{
    writing *s = user;
    RF_TRY(find_values(s, name));
    const rf_weight *w = s->first;
    const uint64_t bytes = rf_dtype_size(w->tensor->is.dtype);
    if (s->count == 0) return rf_tensor_files_read(s->weights->files, w->tensor, offset, data, size);
    const bool transposed = is_transposed(w);
    const bool flat = !transposed && w->row->part == 0;
    const uint64_t count = size / bytes, width = transposed ? w->in : flat ? w->in : w->total;
    float *values = RF_NEW_ARRAY(float, count);
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t done = 0, n; done < count; done += n) {
        const uint64_t at = offset / bytes + done, column = at % width;
        n = width - column < count - done ? width - column : count - done;
        if (flat)
            memcpy(values + done, s->values[0] + at, (size_t)n * sizeof(float));
        else
            fill_row(s, at / width, column, column + n, values + done);
    }
    rf_floats_narrow(data, w->tensor->is.dtype, values, count);
    rf_free(values);
    return RF_OK;
}

rf_result rf_weights_with_source(const rf_weights *weights,
                                 rf_result (*body)(void *user, const rf_archive_source *source), void *user)
{
    writing s = { .weights = weights, .values = RF_NEW_ARRAY(float *, weights->count) };
    const rf_result r =
        s.values ? body(user, &(rf_archive_source){ read_values, &s }) : (rf_result)RF_ERROR_OUT_OF_HOST_MEMORY;
    forget_values(&s);
    rf_free(s.values);
    return r;
}

/* The name that a tensor is written under; rf_free(). */
static char *written_name(const rf_weights *weights, const char *name)
{
    const bool adds = weights->adds_prefix && !was_added(weights->files, name);
    return rf_asprintf("%s%s", adds ? weights->architecture->prefix : "", name);
}

rf_result rf_weights_index(const rf_weights *weights, char **text)
{
    const rf_tensor_files *files = weights->files;
    uint64_t bytes = 0;
    json_t *map = json_object();
    bool whole = map != NULL;
    for (uint32_t i = 0; whole && i < files->num_entries; i++) {
        const rf_tensor_entry *e = &files->entries[i];
        char *name = written_name(weights, e->is.name);
        bytes += (uint64_t)rf_shape_count(e->is.shape) * rf_dtype_size(e->is.dtype);
        whole = name && json_object_set_new(map, name, json_string(files->files[e->file].name)) == 0;
        rf_free(name);
    }
    if (whole)
        return rf_json_text(json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map),
                            text);
    json_decref(map);
    return RF_ERROR_OUT_OF_HOST_MEMORY;
}

rf_result rf_weights_write(const rf_weights *weights, uint32_t file, const char *path)
{
    const rf_tensor_files *files = weights->files;
    writing s = { .weights = weights, .values = RF_NEW_ARRAY(float *, weights->count) };
    rf_named_array *arrays = RF_NEW_ARRAY(rf_named_array, files->num_entries);
    uint32_t count = 0;
    rf_result r = s.values && arrays ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < files->num_entries; i++) {
        const rf_tensor_entry *e = &files->entries[i];
        if (e->file != file) continue;
        char *name = written_name(weights, e->is.name);
        if (!name) r = RF_ERROR_OUT_OF_HOST_MEMORY;
        arrays[count++] = (rf_named_array){ name, { e->is.dtype, e->is.shape, NULL } };
    }
    if (r >= 0)
        r = rf_safetensors_write_from(&rf_system_file_ops, path, arrays, count, "{\"format\":\"pt\"}",
                                      &(rf_archive_source){ read_values, &s });
    forget_values(&s);
    for (uint32_t i = 0; i < count; i++) rf_free((char *)(uintptr_t)arrays[i].name);
    rf_free(s.values);
    rf_free(arrays);
    return r;
}
