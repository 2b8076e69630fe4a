/* SPDX-License-Identifier: Apache-2.0 */
/* New adapters: their matrices, and the weights that are frozen beside them. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "base/philox.h"
#include "replica/store/variables.h"
#include "train/checkpoint/checkpoint.h"
#include "train/lora/set.h"

enum { MOST_RANK = 65536 };

/* ---- configuration ---- */

float rf_lora_scale(const rf_lora_config *config)
{
    const double rank = (double)config->rank;
    return (float)((double)config->alpha / (config->rank_stabilized ? sqrt(rank) : rank));
}

rf_result rf_lora_config_check(const rf_lora_config *config, const char *function)
{
    RF_REQUIRE(config->rank >= 1 && config->rank <= MOST_RANK, "%s: rank %u is not from 1 to %d", function,
               config->rank, MOST_RANK);
    RF_REQUIRE(config->alpha > 0.0f && isfinite(config->alpha), "%s: alpha %g must be positive and finite", function,
               (double)config->alpha);
    RF_REQUIRE(config->dropout >= 0.0f && config->dropout < 1.0f, "%s: dropout %g is not in [0, 1)", function,
               (double)config->dropout);
    return RF_OK;
}

static rf_result read_params(const rf_lora_params *params, rf_lora_config *config)
{
    const rf_lora_params p = params ? *params : (rf_lora_params){ 0 };
    RF_REFUSE_ZERO(p.alpha, "rf_lora_attach: alpha", "an adapter would add nothing; 0 means 8");
    RF_REQUIRE(p.targets || p.num_targets == 0, "rf_lora_attach: targets is NULL, but num_targets is %u",
               p.num_targets);
    *config = (rf_lora_config){ .rank = p.rank ? p.rank : 8,
                                .alpha = p.alpha == 0.0f ? 8.0f : p.alpha,
                                .dropout = p.dropout,
                                .rank_stabilized = p.rank_stabilized,
                                .weight_decomposed = p.weight_decomposed };
    return rf_lora_config_check(config, "rf_lora_attach");
}

static rf_result check_name(const rf_lora_set *set, const char *name)
{
    RF_REQUIRE(name && *name, "the adapter's name is empty");
    for (const char *c = name; *c; c++)
        RF_REQUIRE(isalnum((unsigned char)*c) || *c == '_' || *c == '-',
                   "the adapter's name '%.100s' has other characters than letters, digits, '_' and '-'", name);
    for (uint32_t i = 0; i < set->adapters.count; i++)
        RF_REQUIRE(strcmp(set->adapters.items[i]->name, name) != 0, "the model has an adapter '%.100s' already", name);
    return RF_OK;
}

/* ---- numbers that all workers share ---- */

rf_result rf_lora_agree(rf_strategy *strategy, float *values, uint64_t count)
{
    if (rf_strategy_world_size(strategy) == 1) return RF_OK;
    return rf_broadcast_bytes(strategy, "adapted weights", values, count * sizeof(float));
}

rf_result rf_lora_read_matrix(const rf_lora_part *part, float *values)
{
    const rf_product *product = &rf_lora_site(part)->product;
    const uint64_t count = (uint64_t)rf_shape_count(product->shape), out = part->out, in = count / out;
    if (product->kind != RF_PRODUCT_HEAD) return rf_variable_read(product->weight, values);
    float *rows = RF_NEW_ARRAY(float, count);
    if (!rows) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = rf_variable_read(product->weight, rows);
    for (uint64_t o = 0; r >= 0 && o < out; o++)
        for (uint64_t i = 0; i < in; i++) values[i * out + o] = rows[o * in + i];
    rf_free(rows);
    return r;
}

/* ---- matrices ---- */

/* Makes a variable of the adapter one of the model's. */
static rf_result add_variable(rf_lora_set *set, const rf_lora_adapter *adapter, const char *module, const char *kind,
                              uint32_t part, rf_variable_params params, rf_variable **out)
{
    char *name = part > 0 ? rf_asprintf("%s/%s/%s/%u", module, kind, adapter->name, part)
                          : rf_asprintf("%s/%s/%s", module, kind, adapter->name);
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (char *c = name; *c; c++)
        if (*c == '.') *c = '/';
    params.name = name;
    rf_result r = rf_variable_create(set->model->strategy, &params, out);
    if (r >= 0) r = rf_model_track(set->model, *out);
    if (r >= 0) set->model->tracked.items[set->model->tracked.count - 1].adapter = true;
    rf_free(name);
    return r;
}

/* Lengths of the columns of the weight as it is, [out]. */
static rf_result measure_columns(const rf_lora_part *part, uint64_t in, rf_strategy *strategy, float *lengths)
{
    float *weight = RF_NEW_ARRAY(float, in * part->out);
    double *sums = RF_NEW_ARRAY(double, part->out);
    rf_result r = weight && sums ? rf_lora_read_matrix(part, weight) : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0; r >= 0 && i < in * part->out; i++)
        sums[i % part->out] += (double)weight[i] * (double)weight[i];
    for (uint64_t o = 0; r >= 0 && o < part->out; o++) lengths[o] = (float)sqrt(sums[o]);
    if (r >= 0) r = rf_lora_agree(strategy, lengths, part->out);
    rf_free(weight);
    rf_free(sums);
    return r;
}

static rf_result add_magnitude(rf_lora_set *set, const rf_lora_adapter *adapter, const rf_lora_module *module,
                               uint32_t part, rf_adapter *to)
{
    const uint64_t out = module->parts[part].out;
    float *lengths = RF_NEW_ARRAY(float, out);
    if (!lengths) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = measure_columns(&module->parts[part], rf_lora_in(module), set->model->strategy, lengths);
    const rf_variable_params params = { .shape = RF_SHAPE((int64_t)out), .value = lengths };
    if (r >= 0)
        r = add_variable(set, adapter, module->name, "lora_magnitude_vector", module->parts[part].number, params,
                         &to->magnitude);
    rf_free(lengths);
    return r;
}

/* Kaiming uniform with a of sqrt(5), as PEFT: from -1 / sqrt(in) to 1 / sqrt(in). */
static rf_result add_matrices(rf_lora_set *set, const rf_lora_adapter *adapter, rf_lora_item *item)
{
    const rf_lora_module *module = &set->modules.items[item->module];
    const bool lookup = rf_lora_kind(module) == RF_PRODUCT_LOOKUP;
    const float bound = (float)(1.0 / sqrt((double)rf_lora_in(module)));
    const rf_initializer zeros = { .kind = RF_INIT_ZEROS };
    const rf_initializer uniform = { .kind = RF_INIT_RANDOM_UNIFORM, .a = -bound, .b = bound };
    const rf_initializer normal = { .kind = RF_INIT_RANDOM_NORMAL, .b = 1.0f };
    const rf_adapter common = {
        .scale = rf_lora_scale(&adapter->config),
        .dropout = adapter->config.dropout,
        .seed = rf_hash64(rf_strategy_seed(set->model->strategy), set->model->strategy->store.variables_created) | 1
    };
    rf_shape a = module->a;
    a.dim[a.rank - 1] = adapter->config.rank;
    item->parts[0] = common;
    RF_TRY(add_variable(set, adapter, module->name, "lora_A", 0,
                        (rf_variable_params){ .shape = a, .initializer = lookup ? zeros : uniform },
                        &item->parts[0].a));
    for (uint32_t p = 0; p < module->num_parts; p++) {
        const rf_lora_part *part = &module->parts[p];
        rf_adapter *to = &item->parts[p];
        const rf_shape b = RF_SHAPE(adapter->config.rank, (int64_t)part->out);
        if (p > 0) *to = common;
        to->a = item->parts[0].a;
        RF_TRY(add_variable(set, adapter, module->name, "lora_B", part->number,
                            (rf_variable_params){ .shape = b, .initializer = lookup ? normal : zeros }, &to->b));
        if (adapter->config.weight_decomposed) RF_TRY(add_magnitude(set, adapter, module, p, to));
    }
    return RF_OK;
}

/* ---- the rest of the model ---- */

static rf_result freeze_one(rf_lora_set *set, rf_layer *layer, rf_variable *variable)
{
    RF_TRY(RF_VEC_GROW(&set->frozen));
    bool *is = layer ? &layer->frozen : &variable->frozen;
    set->frozen.items[set->frozen.count++] = (rf_lora_frozen){ layer, variable, *is };
    *is = true;
    return RF_OK;
}

static rf_result freeze_all(rf_lora_set *set)
{
    rf_model *model = set->model;
    for (uint32_t i = 0; i < rf_model_num_all_layers(model); i++)
        RF_TRY(freeze_one(set, rf_model_any_layer(model, i), NULL));
    rf_variable **variables = RF_NEW_ARRAY(rf_variable *, model->tracked.count);
    rf_result r = variables ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < model->tracked.count; i++) {
        variables[i] = model->tracked.items[i].variable;
        r = freeze_one(set, NULL, variables[i]);
    }
    if (r >= 0) r = rf_variables_set_aside(model->strategy, variables, model->tracked.count);
    rf_free(variables);
    model->adapted = r >= 0;
    return r;
}

/* ---- attaching ---- */

static rf_result make_items(rf_lora_set *set, rf_lora_adapter *adapter, const bool *chosen)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->modules.count; i++) count += chosen[i];
    if (!adapter->name || !(adapter->items = RF_NEW_ARRAY(rf_lora_item, count))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < set->modules.count; i++) {
        if (!chosen[i]) continue;
        rf_lora_item *item = &adapter->items[adapter->num_items++];
        item->module = i;
        RF_TRY(add_matrices(set, adapter, item));
    }
    return RF_OK;
}

rf_result rf_lora_attach_to(rf_lora_set *set, const char *name, const rf_lora_config *config, const bool *chosen)
{
    RF_TRY(check_name(set, name));
    RF_TRY(RF_VEC_GROW(&set->adapters));
    rf_lora_adapter *adapter = RF_NEW(rf_lora_adapter);
    if (!adapter) return RF_ERROR_OUT_OF_HOST_MEMORY;
    adapter->name = rf_strdup(name);
    adapter->config = *config;
    rf_result r = set->adapters.count == 0 ? freeze_all(set) : RF_OK;
    set->adapters.items[set->adapters.count++] = adapter;
    if (r >= 0) r = make_items(set, adapter, chosen);
    if (r >= 0) r = rf_lora_activate(set, adapter);
    if (r < 0) rf_lora_remove(set, adapter);
    return r;
}

rf_result rf_lora_attach(rf_model *model, const char *name, const rf_lora_params *params)
{
    static const char function[] = "rf_lora_attach";
    rf_lora_set *set;
    rf_lora_config config;
    RF_TRY(RF_PARAMS_CHECK(rf_lora_params, params));
    RF_TRY(rf_lora_set_of(model, function, &set));
    RF_TRY(read_params(params, &config));
    bool *chosen = RF_NEW_ARRAY(bool, set->modules.count);
    if (!chosen) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r =
        rf_lora_choose(&set->modules, params ? params->targets : NULL, params ? params->num_targets : 0, chosen);
    if (r >= 0) r = rf_lora_attach_to(set, name, &config, chosen);
    rf_free(chosen);
    return rf_error_context(r, "%s", function);
}
