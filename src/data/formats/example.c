/* SPDX-License-Identifier: Apache-2.0 */
#include "data/formats/example.h"

#include <string.h>

#include "base/budget.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "data/formats/example.pb-c.h"
#include "data/image/image.h"

/* ---- the plan ---- */

static rf_result copy_default(const char *name, const rf_tfrecord_feature *f, rf_array *out)
{
    const rf_array *a = f->default_value;
    if (!a) return RF_OK;
    rf_shape most = f->shape;
    if (f->variable && a->shape.rank == most.rank && a->shape.dim[0] < most.dim[0]) most.dim[0] = a->shape.dim[0];
    char is[128], wanted[128];
    const int64_t count = rf_shape_count(a->shape);
    RF_REQUIRE(a->dtype == f->dtype && rf_shape_equal(a->shape, most) && count >= 0 && (a->data || count == 0),
               "rf_dataset_from_tfrecord: feature '%s' is %s %s, but its default_value %s %s%s", name,
               rf_dtype_name(f->dtype), rf_shape_format(f->shape, wanted, sizeof(wanted)), rf_dtype_name(a->dtype),
               rf_shape_format(a->shape, is, sizeof(is)), a->data ? "" : " without data");
    const size_t bytes = (size_t)count * rf_dtype_size(a->dtype);
    *out = (rf_array){ a->dtype, a->shape, rf_calloc((size_t)count, rf_dtype_size(a->dtype)) };
    if (!out->data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (bytes > 0) memcpy(out->data, a->data, bytes);
    return RF_OK;
}

static rf_result plan_feature(uint32_t number, const rf_tfrecord_feature *f, rf_element_spec *spec, rf_example_use *use)
{
    char text[128];
    RF_REQUIRE(f->name, "rf_dataset_from_tfrecord: feature %u has no name", number);
    RF_REQUIRE(f->dtype == RF_F32 || f->dtype == RF_I32 || f->dtype == RF_U8,
               "rf_dataset_from_tfrecord: feature '%s' is %s, not f32, i32 or u8", f->name, rf_dtype_name(f->dtype));
    RF_REQUIRE(rf_shape_count(f->shape) >= 0, "rf_dataset_from_tfrecord: feature '%s' has no valid shape", f->name);
    RF_REQUIRE(!f->variable || (f->shape.rank > 0 && f->shape.dim[0] > 0),
               "rf_dataset_from_tfrecord: feature '%s' is %s and has no dimension that can vary", f->name,
               rf_shape_format(f->shape, text, sizeof(text)));
    if (f->image)
        RF_TRY(rf_image_check_component("rf_dataset_from_tfrecord: feature", f->name, f->dtype, f->shape, f->variable));
    spec->dtype[number] = f->dtype;
    spec->shape[number] = f->shape;
    *use = (rf_example_use){ .name = rf_strdup(f->name), .image = f->image, .variable = f->variable };
    if (!use->name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return copy_default(f->name, f, &use->absent);
}

rf_result rf_example_plan_make(const rf_tfrecord_params *params, rf_example_plan *out)
{
    memset(out, 0, sizeof(*out));
    RF_REQUIRE(params->features && params->num_features >= 1 && params->num_features <= RF_MAX_COMPONENTS,
               "rf_dataset_from_tfrecord: %u features; give 1 to %d", params->num_features, RF_MAX_COMPONENTS);
    for (uint32_t i = 0; i < params->num_features; i++, out->spec.num_components++)
        RF_TRY(plan_feature(i, &params->features[i], &out->spec, &out->uses[i]));
    return RF_OK;
}

void rf_example_plan_free(rf_example_plan *plan)
{
    for (uint32_t i = 0; i < RF_MAX_COMPONENTS; i++) {
        rf_free(plan->uses[i].name);
        rf_array_free(&plan->uses[i].absent);
    }
}

uint64_t rf_example_plan_hash(const rf_example_plan *plan)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < plan->spec.num_components; i++) {
        const rf_example_use *use = &plan->uses[i];
        const rf_shape *shape = &plan->spec.shape[i];
        const uint64_t kind = (uint64_t)plan->spec.dtype[i] << 8 | (uint64_t)use->image << 1 | use->variable;
        h = rf_hash_bytes(use->name, strlen(use->name) + 1, rf_hash64(h, kind));
        h = rf_hash_bytes(shape->dim, (size_t)shape->rank * sizeof(shape->dim[0]), h);
        if (!use->absent.data) continue;
        const uint64_t count = (uint64_t)rf_shape_count(use->absent.shape);
        h = rf_hash_bytes(use->absent.data, count * rf_dtype_size(use->absent.dtype), rf_hash64(h, count + 1));
    }
    return h;
}

/* ---- a message ---- */

/* The cost of unpacking: a list of small numbers that are not packed has two bytes for each, for which protobuf-c takes
 * up to 64 while it reads them, and eight afterwards. */
enum { MOST_GROWTH = 40 };

/* The last of the entries with that key counts, as in every map of a message; NULL: the feature is missing. A value
 * without a kind is none. */
static const RfTf__Feature *find_feature(const RfTf__Example *example, const char *name)
{
    const size_t size = strlen(name);
    for (size_t i = example->features ? example->features->n_feature : 0; i-- > 0;) {
        const RfTf__Features__Entry *entry = example->features->feature[i];
        if (entry->key.len != size || (size > 0 && memcmp(entry->key.data, name, size) != 0)) continue;
        return entry->value && entry->value->kind_case != RF_TF__FEATURE__KIND__NOT_SET ? entry->value : NULL;
    }
    return NULL;
}

/* `count` values fill the component, or as many of its rows as they are. */
static rf_result check_count(const rf_example_use *use, uint64_t count, const char *unit, rf_array *out)
{
    const uint64_t most = (uint64_t)rf_shape_count(out->shape);
    char text[128];
    const char *shape = rf_shape_format(out->shape, text, sizeof(text));
    if (!use->variable) {
        if (count == most) return RF_OK;
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%llu %s, but %s takes %llu; declare the shape that the records have",
                       (unsigned long long)count, unit, shape, (unsigned long long)most);
    }
    const uint64_t rows = (uint64_t)out->shape.dim[0], row = most / rows;
    if (count > most || (row > 0 ? count % row : count) != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%llu %s, but %s takes up to %llu rows of %llu",
                       (unsigned long long)count, unit, shape, (unsigned long long)rows, (unsigned long long)row);
    if (row > 0) out->shape.dim[0] = (int64_t)(count / row);
    return RF_OK;
}

static rf_result take_floats(const rf_example_use *use, const RfTf__FloatList *list, rf_array *out)
{
    RF_TRY(check_count(use, list->n_value, "values", out));
    if (list->n_value > 0) memcpy(out->data, list->value, list->n_value * sizeof(float));
    return RF_OK;
}

static rf_result take_integers(const rf_example_use *use, const RfTf__Int64List *list, rf_array *out)
{
    int32_t *to = out->data;
    RF_TRY(check_count(use, list->n_value, "values", out));
    for (size_t i = 0; i < list->n_value; i++) {
        const int64_t value = list->value[i];
        if (value < INT32_MIN || value > INT32_MAX)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "value %zu is %lld, which i32 cannot hold", i, (long long)value);
        to[i] = (int32_t)value;
    }
    return RF_OK;
}

static rf_result take_bytes(const rf_example_use *use, const RfTf__BytesList *list, rf_array *out)
{
    if (list->n_value != 1)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu strings of bytes; one can be read", list->n_value);
    const ProtobufCBinaryData *bytes = &list->value[0];
    if (use->image) return rf_image_decode_to(bytes->data, bytes->len, out);
    RF_TRY(check_count(use, bytes->len, "bytes", out));
    if (bytes->len > 0) memcpy(out->data, bytes->data, bytes->len);
    return RF_OK;
}

static rf_result take_default(const rf_array *absent, rf_array *out)
{
    if (!absent->data)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is missing; a default_value would stand for it, or is the name right?");
    const size_t bytes = (size_t)rf_shape_count(absent->shape) * rf_dtype_size(absent->dtype);
    out->shape = absent->shape;
    if (bytes > 0) memcpy(out->data, absent->data, bytes);
    return RF_OK;
}

static rf_result take_feature(const rf_example_use *use, const RfTf__Feature *feature, rf_array *out)
{
    static const struct {
        const char *list;
        rf_dtype dtype;
    } kinds[] = {
        [RF_TF__FEATURE__KIND_BYTES_LIST] = { "a bytes_list", RF_U8 },
        [RF_TF__FEATURE__KIND_FLOAT_LIST] = { "a float_list", RF_F32 },
        [RF_TF__FEATURE__KIND_INT64_LIST] = { "an int64_list", RF_I32 },
    };
    if (!feature) return take_default(&use->absent, out);
    if (kinds[feature->kind_case].dtype != out->dtype)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is %s, which becomes %s, not %s; declare it so",
                       kinds[feature->kind_case].list, rf_dtype_name(kinds[feature->kind_case].dtype),
                       rf_dtype_name(out->dtype));
    switch (out->dtype) {
    case RF_F32: return take_floats(use, feature->float_list, out);
    case RF_I32: return take_integers(use, feature->int64_list, out);
    default: return take_bytes(use, feature->bytes_list, out);
    }
}

rf_result rf_example_decode(const void *bytes, size_t size, const rf_example_plan *plan, rf_element *out)
{
    rf_budget budget = rf_budget_of_message(size, MOST_GROWTH);
    ProtobufCAllocator allocator = { rf_budget_allocate, rf_budget_release, &budget };
    RfTf__Example *example = rf_tf__example__unpack(&allocator, size, bytes);
    if (!example && budget.no_memory)
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for a message of %zu bytes", size);
    if (!example)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s",
                       budget.exceeded ? "its message would take too much memory" : "it is no tf.train.Example");
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < plan->spec.num_components && r == RF_OK; i++) {
        const rf_example_use *use = &plan->uses[i];
        r = rf_error_context(take_feature(use, find_feature(example, use->name), &out->component[i]), "feature '%s'",
                             use->name);
    }
    rf_tf__example__free_unpacked(example, &allocator);
    return r;
}
