/* SPDX-License-Identifier: Apache-2.0 */
/* Sample weights by the class of a label, made on the host beside the batches. */
#include "train/fit/class_weights.h"

#include <math.h>

#include "base/error.h"
#include "train/fit/compile.h"

static bool is_readable(rf_dtype dtype)
{
    return dtype == RF_I32 || dtype == RF_U8 || dtype == RF_F32;
}

static double number_at(const rf_array *a, int64_t index)
{
    if (a->dtype == RF_I32) return ((const int32_t *)a->data)[index];
    if (a->dtype == RF_U8) return ((const uint8_t *)a->data)[index];
    return (double)((const float *)a->data)[index];
}

static float weight_of_class(const rf_class_weights *w, double number)
{
    return number >= 0 && number < w->count ? (float)w->weights[(uint32_t)number] : 1.0f;
}

/* The label's class; of one-hot ones that of the largest element, the first of equal ones. */
static double class_of(const rf_array *labels, int64_t index, int64_t width)
{
    int64_t largest = 0;
    if (width == 1) return number_at(labels, index);
    for (int64_t i = 1; i < width; i++)
        if (number_at(labels, index * width + i) > number_at(labels, index * width + largest)) largest = i;
    return (double)largest;
}

/* Labels [n...] have weights [n...], and so have [n..., 1] and one-hot ones [n..., c]. */
static rf_shape shape_of_weights(rf_shape labels, bool one_hot)
{
    if (labels.rank >= 2 && (one_hot || labels.dim[labels.rank - 1] == 1)) labels.rank--;
    return labels;
}

/* The other components stay where they are: a map places those of `out` anew for each element. */
static rf_result weigh_batch(void *user, const rf_element *in, rf_element *out)
{
    const rf_class_weights *w = user;
    const rf_array *labels = &in->component[w->label];
    rf_array *weights = &out->component[w->label + 1];
    for (uint32_t i = 0; i <= w->label; i++) out->component[i] = in->component[i];
    weights->shape = shape_of_weights(labels->shape, w->one_hot);
    const int64_t count = rf_shape_count(weights->shape), rows = labels->shape.dim[0];
    const int64_t width = w->one_hot ? labels->shape.dim[labels->shape.rank - 1] : 1;
    const float *own = w->has_weights ? in->component[w->label + 1].data : NULL;
    const int64_t each =
        own && rf_shape_count(in->component[w->label + 1].shape) == count ? 1 : count / (rows ? rows : 1);
    for (int64_t i = 0; i < count; i++)
        ((float *)weights->data)[i] = weight_of_class(w, class_of(labels, i, width)) * (own ? own[i / each] : 1.0f);
    return RF_OK;
}

static rf_result check_weights(const rf_model *model, const rf_fit_params *params)
{
    RF_REQUIRE(params->class_weights, "rf_model_fit: class_weights is NULL but num_class_weights is %u",
               params->num_class_weights);
    RF_REQUIRE(model->num_outputs == 1, "rf_model_fit: class_weights are of a model's only output, this one has %u",
               model->num_outputs);
    RF_REQUIRE(params->device_cache != RF_DEVICE_CACHE_ON,
               "rf_model_fit: class_weights are looked up on the host, so that device_cache cannot be ON; put sample "
               "weights into data instead");
    for (uint32_t i = 0; i < params->num_class_weights; i++)
        RF_REQUIRE(isfinite(params->class_weights[i]), "rf_model_fit: class_weights[%u] is not finite", i);
    return RF_OK;
}

static rf_result check_data(const rf_class_weights *w, const rf_element_spec *spec, rf_shape weights)
{
    char is[96], wanted[96];
    RF_REQUIRE(is_readable(spec->dtype[w->label]), "rf_model_fit: class_weights beside labels %s, not i32, u8 or f32",
               rf_dtype_name(spec->dtype[w->label]));
    if (!w->has_weights) return RF_OK;
    const rf_shape own = spec->shape[w->label + 1];
    RF_REQUIRE(spec->dtype[w->label + 1] == RF_F32 && (own.rank == 1 || rf_shape_equal(own, weights)),
               "rf_model_fit: class_weights beside a sample weight %s %s, not f32 [n] or %s",
               rf_dtype_name(spec->dtype[w->label + 1]), rf_shape_format(own, is, sizeof(is)),
               rf_shape_format(weights, wanted, sizeof(wanted)));
    return RF_OK;
}

rf_result rf_class_weights_apply(const rf_model *model, const rf_fit_params *params, rf_class_weights *state,
                                 rf_dataset **out)
{
    rf_element_spec spec;
    *out = NULL;
    if (params->num_class_weights == 0) return RF_OK;
    RF_TRY(check_weights(model, params));
    rf_dataset_spec(params->data, &spec);
    const uint32_t label = model->num_inputs;
    const rf_shape labels = spec.shape[label];
    const rf_compiled *c = model->compiled;
    const bool numbers = !c->loss_fn && c->losses[0].kind == RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    *state = (rf_class_weights){ .weights = params->class_weights,
                                 .count = params->num_class_weights,
                                 .label = label,
                                 .one_hot = !numbers && labels.rank >= 2 && labels.dim[labels.rank - 1] > 1,
                                 .has_weights = spec.num_components > label + 1 };
    const rf_shape weights = shape_of_weights(labels, state->one_hot);
    RF_TRY(check_data(state, &spec, weights));
    spec.num_components = label + 2;
    spec.dtype[label + 1] = RF_F32;
    spec.shape[label + 1] = weights;
    return rf_error_context(rf_dataset_map(params->data, weigh_batch, state, &spec, out),
                            "rf_model_fit: class_weights");
}
