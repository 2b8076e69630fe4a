/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters that become part of the weights, and weights as they were. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "replica/store/variables.h"
#include "train/lora/set.h"

/* ---- arithmetic ---- */

/* weight [in, out] += scale * a [in, rank] b [rank, out] */
static void add_product(float *weight, uint64_t in, uint64_t out, const float *a, const float *b, uint64_t rank,
                        float scale)
{
    for (uint64_t i = 0; i < in; i++) {
        float *row = weight + i * out;
        for (uint64_t k = 0; k < rank; k++) {
            const float factor = scale * a[i * rank + k];
            for (uint64_t o = 0; o < out; o++) row[o] += factor * b[k * out + o];
        }
    }
}

/* Columns get these lengths; `sums` has room for them. */
static void set_lengths(float *weight, uint64_t in, uint64_t out, const float *lengths, double *sums)
{
    memset(sums, 0, (size_t)out * sizeof(*sums));
    for (uint64_t i = 0; i < in; i++)
        for (uint64_t o = 0; o < out; o++) sums[o] += (double)weight[i * out + o] * (double)weight[i * out + o];
    for (uint64_t i = 0; i < in; i++)
        for (uint64_t o = 0; o < out; o++)
            weight[i * out + o] = (float)((double)weight[i * out + o] * ((double)lengths[o] / sqrt(sums[o])));
}

/* ---- weights ---- */

static rf_result keep_original(rf_lora_set *set, rf_variable *weight)
{
    for (uint32_t i = 0; i < set->originals.count; i++)
        if (set->originals.items[i].variable == weight) return RF_OK;
    RF_TRY(RF_VEC_GROW(&set->originals));
    float *values = RF_NEW_ARRAY(float, weight->count);
    const rf_result r = values ? rf_variable_read(weight, values) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        rf_free(values);
        return r;
    }
    set->originals.items[set->originals.count++] = (rf_lora_original){ weight, values };
    return RF_OK;
}

/* Values of the variables of an adapter, one after the other; NULL after a failure. */
static float *read_adapter(const rf_adapter *from, const float **b, const float **magnitude)
{
    const uint64_t after = from->a->count, end = after + from->b->count;
    float *values = RF_NEW_ARRAY(float, end + (from->magnitude ? from->magnitude->count : 0));
    if (!values) return NULL;
    rf_result r = rf_variable_read(from->a, values);
    if (r >= 0) r = rf_variable_read(from->b, values + after);
    if (r >= 0 && from->magnitude) r = rf_variable_read(from->magnitude, values + end);
    *b = values + after;
    *magnitude = from->magnitude ? values + end : NULL;
    if (r >= 0) return values;
    rf_free(values);
    return NULL;
}

static rf_result merge_part(rf_lora_set *set, const rf_lora_part *part, uint64_t in, uint64_t rank,
                            const rf_adapter *from)
{
    rf_variable *weight = rf_lora_site(part)->product.weight;
    const float *b, *magnitude;
    RF_TRY(keep_original(set, weight));
    float *a = read_adapter(from, &b, &magnitude), *values = RF_NEW_ARRAY(float, in * part->out);
    double *sums = RF_NEW_ARRAY(double, part->out);
    rf_result r = a && values && sums ? rf_lora_read_matrix(part, values) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        add_product(values, in, part->out, a, b, rank, from->scale);
        if (magnitude) set_lengths(values, in, part->out, magnitude, sums);
        r = rf_lora_agree(set->model->strategy, values, in * part->out);
    }
    if (r >= 0) r = rf_variable_assign(weight, values);
    rf_free(a);
    rf_free(values);
    rf_free(sums);
    return r;
}

/* ---- the model ---- */

/* Another layer that has the weight as well; NULL: none has. */
static const rf_layer *find_other_user(const rf_lora_set *set, const rf_lora_part *part)
{
    const rf_variable *weight = rf_lora_site(part)->product.weight;
    for (uint32_t i = 0; i < rf_model_num_all_layers(set->model); i++)
        for (const rf_layer *l = rf_model_any_layer(set->model, i); l; l = l->inner)
            for (uint32_t k = 0; k < l->sites->count; k++)
                if (l->sites->items[k].product.weight == weight && (l != part->layer || k != part->site)) return l;
    return NULL;
}

static bool is_quantized(const rf_lora_module *module)
{
    rf_quantization kind;
    for (uint32_t p = 0; p < module->num_parts; p++)
        if (rf_variable_quantized(rf_lora_site(&module->parts[p])->product.weight, &kind)) return true;
    return false;
}

static rf_result check_merge(const rf_lora_set *set, const rf_lora_adapter *adapter)
{
    RF_REQUIRE(!adapter->merged, "rf_lora_merge: adapter '%s' is merged already", adapter->name);
    for (uint32_t i = 0; i < adapter->num_items; i++) {
        const rf_lora_module *module = &set->modules.items[adapter->items[i].module];
        if (is_quantized(module))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "rf_lora_merge: the weight of module '%s' is stored in few bits, and would be rounded "
                           "again; merge in a model without rf_strategy_set_quantization()",
                           module->name);
        for (uint32_t p = 0; p < module->num_parts; p++) {
            const rf_layer *other = find_other_user(set, &module->parts[p]);
            if (other)
                return RF_FAIL(
                    RF_ERROR_UNSUPPORTED,
                    "rf_lora_merge: the weight of module '%s' is also that of layer '%s', which would change "
                    "with it; let the adapter act beside it (rf_lora_set_active())",
                    module->name, other->name);
        }
    }
    return RF_OK;
}

rf_result rf_lora_unmerge(rf_model *model)
{
    rf_lora_set *set;
    RF_TRY(rf_lora_set_of(model, "rf_lora_unmerge", &set));
    RF_TRY(rf_lora_activate(set, NULL));
    while (set->originals.count > 0) {
        rf_lora_original *last = &set->originals.items[set->originals.count - 1];
        RF_TRY(rf_variable_assign(last->variable, last->values));
        rf_free(last->values);
        set->originals.count--;
    }
    for (uint32_t i = 0; i < set->adapters.count; i++) set->adapters.items[i]->merged = false;
    return RF_OK;
}

rf_result rf_lora_merge(rf_model *model, const char *name)
{
    rf_lora_adapter *adapter;
    RF_TRY(rf_lora_find(model, name, "rf_lora_merge", &adapter));
    rf_lora_set *set = model->lora;
    RF_TRY(check_merge(set, adapter));
    if (set->active == adapter) RF_TRY(rf_lora_activate(set, NULL));
    for (uint32_t i = 0; i < adapter->num_items; i++) {
        const rf_lora_item *item = &adapter->items[i];
        const rf_lora_module *module = &set->modules.items[item->module];
        for (uint32_t p = 0; p < module->num_parts; p++)
            RF_TRY(merge_part(set, &module->parts[p], rf_lora_in(module), adapter->config.rank, &item->parts[p]));
    }
    adapter->merged = true;
    return RF_OK;
}
