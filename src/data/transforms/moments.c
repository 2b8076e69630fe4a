/* SPDX-License-Identifier: Apache-2.0 */
/* Mean and variance of a dataset's numbers: Welford (1962), in double precision. */
#include <string.h>

#include "base/params.h"
#include "data/pipeline.h"

typedef struct moments {
    uint64_t count; /* of the numbers in each mean */
    double mean, squares;
} moments;

/* The numbers of one element: which of the `size` means each belongs to repeats every `inner` * `size` of them. */
typedef struct moments_plan {
    uint32_t component;
    int64_t size, inner;
} moments_plan;

static double number_at(const rf_array *a, int64_t i)
{
    switch (a->dtype) {
    case RF_U8: return ((const uint8_t *)a->data)[i];
    case RF_I32: return ((const int32_t *)a->data)[i];
    default: return (double)((const float *)a->data)[i];
    }
}

static void add_array(const moments_plan *plan, const rf_array *a, moments *of)
{
    const int64_t count = rf_shape_count(a->shape);
    for (int64_t begin = 0; begin < count; begin += plan->inner) {
        moments *m = &of[begin / plan->inner % plan->size];
        for (int64_t i = begin; i < begin + plan->inner; i++) {
            const double x = number_at(a, i), from_mean = x - m->mean;
            m->mean += from_mean / (double)++m->count;
            m->squares += from_mean * (x - m->mean);
        }
    }
}

static rf_result read_moments(const rf_dataset *dataset, const moments_plan *plan, moments *of)
{
    rf_iterator *it;
    const rf_element *e;
    RF_TRY(rf_iterator_create(dataset, 0, &it));
    rf_result r;
    while ((r = rf_iterator_next(it, &e)) == RF_OK) add_array(plan, &e->component[plan->component], of);
    rf_iterator_destroy(&it);
    if (r < 0) return rf_error_context(r, "rf_dataset_moments");
    RF_REQUIRE(of[0].count > 0, "rf_dataset_moments: the dataset is empty");
    return RF_OK;
}

static rf_result write_moments(const moments_plan *plan, bool whole, const moments *of, rf_array *mean,
                               rf_array *variance)
{
    const rf_shape shape = whole ? (rf_shape){ 0 } : RF_SHAPE(plan->size);
    float *means = rf_calloc((size_t)plan->size, sizeof(float)),
          *variances = rf_calloc((size_t)plan->size, sizeof(float));
    *mean = (rf_array){ RF_F32, shape, means };
    *variance = (rf_array){ RF_F32, shape, variances };
    if (!means || !variances) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < plan->size; i++) {
        means[i] = (float)of[i].mean;
        variances[i] = (float)(of[i].squares / (double)of[i].count);
    }
    return RF_OK;
}

static rf_result plan_moments(const rf_dataset *dataset, const rf_moments_params *p, moments_plan *out)
{
    char text[128];
    RF_REQUIRE(p->component < dataset->spec.num_components,
               "rf_dataset_moments: component is %u, the elements have %u components", p->component,
               dataset->spec.num_components);
    const rf_shape shape = dataset->spec.shape[p->component];
    const rf_dtype dtype = dataset->spec.dtype[p->component];
    RF_REQUIRE(dtype == RF_U8 || dtype == RF_I32 || dtype == RF_F32,
               "rf_dataset_moments: component %u is %s, not u8, i32 or f32", p->component, rf_dtype_name(dtype));
    RF_REQUIRE(dataset->cardinality != RF_CARDINALITY_INFINITE,
               "rf_dataset_moments: the dataset never ends; rf_dataset_take() some of it");
    *out = (moments_plan){ .component = p->component, .size = 1, .inner = 1 };
    if (p->whole) {
        RF_REQUIRE(p->axis == 0, "rf_dataset_moments: axis is %d, and one mean is wanted of the whole; leave it 0",
                   (int)p->axis);
        return RF_OK;
    }
    const int32_t batch = dataset->batch_size > 0 ? 0 : 1; /* a dimension that elements do not have */
    const int32_t axis = p->axis > 0 ? p->axis - batch : p->axis < 0 ? p->axis + shape.rank : shape.rank - 1;
    RF_REQUIRE(axis >= 1 - batch && axis < shape.rank,
               "rf_dataset_moments: there is no axis %d beside the batch in %s %s; give another, or `whole`",
               (int)p->axis, batch ? "an element" : "a batch", rf_shape_format(shape, text, sizeof(text)));
    out->size = shape.dim[axis];
    for (int32_t i = axis + 1; i < shape.rank; i++) out->inner *= shape.dim[i];
    return RF_OK;
}

rf_result rf_dataset_moments(const rf_dataset *dataset, const rf_moments_params *params, rf_array *mean,
                             rf_array *variance)
{
    RF_REQUIRE(mean && variance, "rf_dataset_moments: %s is NULL", mean ? "variance" : "mean");
    *mean = *variance = (rf_array){ 0 };
    RF_REQUIRE(dataset, "rf_dataset_moments: dataset is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_moments_params, params));
    const rf_moments_params p = params ? *params : (rf_moments_params){ 0 };
    moments_plan plan = { 0 };
    RF_TRY(plan_moments(dataset, &p, &plan));
    moments *of = RF_NEW_ARRAY(moments, plan.size);
    if (!of) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = read_moments(dataset, &plan, of);
    if (r == RF_OK) r = write_moments(&plan, p.whole, of, mean, variance);
    if (r < 0) {
        rf_array_free(mean);
        rf_array_free(variance);
    }
    rf_free(of);
    return r;
}
