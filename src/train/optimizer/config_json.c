/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optimizer/config_json.h"

#include "base/memory.h"
#include "train/optimizer/schedule.h"

/* ---- schedules ---- */

static const char *const schedule_names[] = {
    [RF_SCHEDULE_CONSTANT] = "constant",
    [RF_SCHEDULE_EXPONENTIAL_DECAY] = "exponential_decay",
    [RF_SCHEDULE_PIECEWISE_CONSTANT] = "piecewise_constant",
    [RF_SCHEDULE_COSINE_DECAY] = "cosine_decay",
    [RF_SCHEDULE_POLYNOMIAL_DECAY] = "polynomial_decay",
    [RF_SCHEDULE_INVERSE_TIME_DECAY] = "inverse_time_decay",
    [RF_SCHEDULE_INVERSE_SQRT] = "inverse_sqrt",
    [RF_SCHEDULE_COSINE_RESTARTS] = "cosine_restarts",
};
enum { NUM_SCHEDULES = sizeof(schedule_names) / sizeof(schedule_names[0]) };

json_t *rf_schedule_to_json(const rf_schedule *s)
{
    json_t *boundaries = json_array(), *values = json_array();
    const bool piecewise = s->kind == RF_SCHEDULE_PIECEWISE_CONSTANT;
    for (uint32_t i = 0; piecewise && i < s->num_boundaries; i++)
        json_array_append_new(boundaries, json_integer((json_int_t)s->boundaries[i]));
    for (uint32_t i = 0; piecewise && i <= s->num_boundaries; i++)
        json_array_append_new(values, json_real(s->values[i]));
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:I, s:I, s:b, s:o, s:o}", "kind",
                     schedule_names[s->kind], "initial", s->initial, "rate", s->decay_rate, "alpha", s->alpha, "end",
                     s->end, "power", s->power, "t_mul", s->t_mul, "m_mul", s->m_mul, "warmup_initial",
                     s->warmup_initial, "cycle", s->cycle, "decay_steps", (json_int_t)s->decay_steps, "warmup_steps",
                     (json_int_t)s->warmup_steps, "staircase", s->staircase, "boundaries", boundaries, "values",
                     values);
}

static rf_result read_pieces(const json_t *object, rf_schedule *s)
{
    const json_t *boundaries = json_object_get(object, "boundaries"), *values = json_object_get(object, "values");
    const size_t count = json_array_size(boundaries), num_values = json_array_size(values);
    if (count > 15 || num_values > 16 || (num_values > 0 && num_values != count + 1))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "schedule: %zu boundaries and %zu values", count, num_values);
    s->num_boundaries = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *b = json_array_get(boundaries, i);
        if (!json_is_integer(b)) return rf_json_fail_member("boundaries", "a list of integers");
        s->boundaries[i] = (uint64_t)json_integer_value(b);
    }
    for (size_t i = 0; i < num_values; i++) {
        const json_t *v = json_array_get(values, i);
        if (!json_is_number(v)) return rf_json_fail_member("values", "a list of numbers");
        s->values[i] = json_number_value(v);
    }
    return RF_OK;
}

rf_result rf_schedule_from_json(const json_t *object, rf_schedule *out)
{
    *out = (rf_schedule){ 0 };
    int kind = 0;
    RF_TRY(rf_json_choice(object, "kind", schedule_names, NUM_SCHEDULES, &kind));
    out->kind = (rf_schedule_kind)kind;
    RF_TRY(rf_json_number(object, "initial", &out->initial));
    RF_TRY(rf_json_number(object, "rate", &out->decay_rate));
    RF_TRY(rf_json_number(object, "alpha", &out->alpha));
    RF_TRY(rf_json_number(object, "end", &out->end));
    RF_TRY(rf_json_number(object, "power", &out->power));
    RF_TRY(rf_json_number(object, "t_mul", &out->t_mul)); /* not in files of earlier versions, which have no restarts */
    RF_TRY(rf_json_number(object, "m_mul", &out->m_mul));
    RF_TRY(rf_json_number(object, "warmup_initial", &out->warmup_initial));
    RF_TRY(rf_json_bool(object, "cycle", &out->cycle));
    RF_TRY(rf_json_u64(object, "decay_steps", &out->decay_steps));
    RF_TRY(rf_json_u64(object, "warmup_steps", &out->warmup_steps));
    RF_TRY(rf_json_bool(object, "staircase", &out->staircase));
    RF_TRY(read_pieces(object, out));
    return rf_schedule_check(out) < 0 ? RF_FAIL(RF_ERROR_CORRUPT_DATA, "schedule: %s", rf_error_message()) : RF_OK;
}

/* ---- optimizers ---- */

static const char *const muon_scale_names[] = { [RF_MUON_SCALE_RMS] = "rms", [RF_MUON_SCALE_SHAPE] = "shape" };

static json_t *muon_to_json(const rf_muon_params *p)
{
    return json_pack("{s:b, s:b, s:b, s:I, s:s, s:f, s:I}", "adamw", p->adamw, "embeddings", p->embeddings,
                     "plain_momentum", p->plain_momentum, "row_dimensions", (json_int_t)p->row_dimensions, "scale",
                     muon_scale_names[p->scale], "rms_rate", p->rms_rate, "steps", (json_int_t)p->steps);
}

static rf_result muon_from_json(const json_t *object, rf_muon_params *p)
{
    uint64_t rows = 0, steps = 0;
    int scale = 0;
    if (!json_is_object(object)) return rf_json_fail_member("muon", "an object");
    RF_TRY(rf_json_bool(object, "adamw", &p->adamw));
    RF_TRY(rf_json_bool(object, "embeddings", &p->embeddings));
    RF_TRY(rf_json_bool(object, "plain_momentum", &p->plain_momentum));
    RF_TRY(rf_json_u64(object, "row_dimensions", &rows));
    RF_TRY(rf_json_choice(object, "scale", muon_scale_names, 2, &scale));
    RF_TRY(rf_json_number(object, "rms_rate", &p->rms_rate));
    RF_TRY(rf_json_u64(object, "steps", &steps));
    if (rows > UINT32_MAX || steps > UINT32_MAX) return rf_json_fail_member("muon", "within range");
    p->row_dimensions = (uint32_t)rows;
    p->scale = (rf_muon_scale)scale;
    p->steps = (uint32_t)steps;
    return RF_OK;
}

static json_t *groups_to_json(const rf_optimizer_params *p)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->num_groups; i++) {
        const rf_parameter_group *g = &p->groups[i];
        json_t *object = json_pack("{s:s, s:f, s:b}", "names", g->names, "rate_factor", g->rate_factor,
                                   "no_weight_decay", g->no_weight_decay);
        if (g->muon) (void)json_object_set_new(object, "muon", muon_to_json(g->muon));
        json_array_append_new(list, object);
    }
    return list;
}

/* Files of versions that had no groups do not have the list. */
static rf_result groups_from_json(const json_t *list, rf_optimizer_params *p)
{
    rf_parameter_group groups[RF_MAX_PARAMETER_GROUPS] = { 0 }, *copy;
    rf_muon_params muon[RF_MAX_PARAMETER_GROUPS] = { 0 };
    const size_t count = json_array_size(list);
    if (count > RF_MAX_PARAMETER_GROUPS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'groups' has %zu entries", count);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        groups[i].names = json_string_value(json_object_get(object, "names"));
        if (!groups[i].names) return rf_json_fail_member("names", "a text");
        RF_TRY(rf_json_number(object, "rate_factor", &groups[i].rate_factor));
        RF_TRY(rf_json_bool(object, "no_weight_decay", &groups[i].no_weight_decay));
        const json_t *own = json_object_get(object, "muon");
        if (own) RF_TRY(muon_from_json(own, &muon[i]));
        if (own) groups[i].muon = &muon[i];
    }
    RF_TRY(rf_parameter_groups_copy(groups, (uint32_t)count, &copy));
    p->groups = copy;
    p->num_groups = (uint32_t)count;
    return RF_OK;
}

void rf_optimizer_params_free(rf_optimizer_params *params)
{
    rf_free((void *)(uintptr_t)params->groups);
    params->groups = NULL;
    params->num_groups = 0;
    rf_free((void *)(uintptr_t)params->loss_scale);
    params->loss_scale = NULL;
}

/* Flat, as all settings are, because checkpoints compare them one by one; an initial value of 0 is none. */
static rf_result loss_scale_to_json(const rf_loss_scale_params *p, json_t *object)
{
    static const rf_loss_scale_params none = { 0 };
    if (!p) p = &none;
    RF_TRY(rf_json_set(object, "loss_scale", json_real(p->initial)));
    RF_TRY(rf_json_set(object, "loss_scale_growth_steps", json_integer((json_int_t)p->growth_steps)));
    return rf_json_set(object, "loss_scale_fixed", json_boolean(p->fixed));
}

static rf_result loss_scale_from_json(const json_t *object, rf_optimizer_params *p)
{
    rf_loss_scale_params scale = { 0 };
    uint64_t growth = 0;
    RF_TRY(rf_json_number(object, "loss_scale", &scale.initial));
    RF_TRY(rf_json_u64(object, "loss_scale_growth_steps", &growth));
    RF_TRY(rf_json_bool(object, "loss_scale_fixed", &scale.fixed));
    if (growth > UINT32_MAX) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'loss_scale_growth_steps' is out of range");
    scale.growth_steps = (uint32_t)growth;
    if (scale.initial == 0.0) return RF_OK;
    rf_loss_scale_params *copy = RF_NEW(rf_loss_scale_params);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *copy = scale;
    p->loss_scale = copy;
    return RF_OK;
}

/* A number, as checkpoints compare settings; files that do not say have 0: f32. */
static const uint64_t state_bits[] = {
    [RF_OPTIMIZER_STATE_F32] = 0, [RF_OPTIMIZER_STATE_BF16] = 16, [RF_OPTIMIZER_STATE_8BIT] = 8
};

static rf_result state_type_from_json(const json_t *object, rf_optimizer_state_type *out)
{
    uint64_t bits = 0;
    RF_TRY(rf_json_u64(object, "state_bits", &bits));
    for (uint32_t i = 0; i < sizeof(state_bits) / sizeof(state_bits[0]); i++) {
        *out = (rf_optimizer_state_type)i;
        if (state_bits[i] == bits) return RF_OK;
    }
    return rf_json_fail_member("state_bits", "0, 8 or 16");
}

json_t *rf_optimizer_to_json(const rf_optimizer_params *p, const rf_schedule *schedule)
{
    json_t *hyperparameters = json_array(); /* of a custom optimizer, which only comparisons see */
    for (uint32_t i = 0; p->custom && i < p->custom->num_hyperparameters; i++) {
        const rf_hyperparameter *h = &p->custom->hyperparameters[i];
        json_array_append_new(hyperparameters, json_pack("[s, f]", h->name, h->value));
    }
    json_t *object =
        json_pack("{s:s, s:o, s:f, s:b, s:f, s:f, s:f, s:b, s:f, s:f, s:f, s:f, s:f, s:I, s:o, s:f, s:b, s:f, s:I, "
                  "s:I, s:o}",
                  "kind", rf_optimizer_kind_names[p->kind], "learning_rate", rf_schedule_to_json(schedule), "momentum",
                  p->momentum, "nesterov", p->nesterov, "beta_1", p->beta_1, "beta_2", p->beta_2, "epsilon", p->epsilon,
                  "epsilon_uncorrected", p->epsilon_form == RF_EPSILON_UNCORRECTED, "rho", p->rho, "weight_decay",
                  p->weight_decay, "clip_value", p->clip_value, "clip_norm", p->clip_norm, "global_clip_norm",
                  p->global_clip_norm, "accumulation_steps", (json_int_t)p->accumulation_steps, "groups",
                  groups_to_json(p), "initial_accumulator_value", p->initial_accumulator_value, "use_ema", p->use_ema,
                  "ema_momentum", p->ema_momentum, "ema_overwrite_frequency", (json_int_t)p->ema_overwrite_frequency,
                  "state_bits", (json_int_t)state_bits[p->state_type], "hyperparameters", hyperparameters);
    if (object && loss_scale_to_json(p->loss_scale, object) >= 0) return object;
    json_decref(object);
    return NULL;
}

/* Fields that a kind does not use hold defaults, which its constructor would refuse. */
static void drop_unused(rf_optimizer_params *p)
{
    const bool muon = p->kind == RF_OPTIMIZER_MUON;
    const bool adam = p->kind == RF_OPTIMIZER_ADAM || p->kind == RF_OPTIMIZER_ADAMW || muon;
    if (!rf_optimizer_has_betas(p->kind)) p->beta_1 = p->beta_2 = 0;
    if (!adam) p->epsilon_form = RF_EPSILON_CORRECTED;
    if (p->kind == RF_OPTIMIZER_SGD || p->kind == RF_OPTIMIZER_LION) p->epsilon = 0;
    if (p->kind != RF_OPTIMIZER_RMSPROP) p->rho = 0;
}

rf_result rf_optimizer_from_json(const json_t *object, rf_optimizer_params *p, rf_schedule *schedule)
{
    int kind = 0;
    uint64_t accumulation = 1, every = 0;
    RF_TRY(rf_json_choice(object, "kind", rf_optimizer_kind_names, RF_OPTIMIZER_KINDS, &kind));
    if (kind == RF_OPTIMIZER_CUSTOM) return rf_json_fail_member("kind", "one that files hold");
    RF_TRY(rf_schedule_from_json(json_object_get(object, "learning_rate"), schedule));
    RF_TRY(rf_json_number(object, "momentum", &p->momentum));
    RF_TRY(rf_json_bool(object, "nesterov", &p->nesterov));
    RF_TRY(rf_json_number(object, "beta_1", &p->beta_1));
    RF_TRY(rf_json_number(object, "beta_2", &p->beta_2));
    RF_TRY(rf_json_number(object, "epsilon", &p->epsilon));
    bool uncorrected = false; /* as in files that do not say */
    RF_TRY(rf_json_bool(object, "epsilon_uncorrected", &uncorrected));
    p->epsilon_form = uncorrected ? RF_EPSILON_UNCORRECTED : RF_EPSILON_CORRECTED;
    RF_TRY(rf_json_number(object, "rho", &p->rho));
    RF_TRY(rf_json_number(object, "initial_accumulator_value", &p->initial_accumulator_value));
    RF_TRY(rf_json_number(object, "weight_decay", &p->weight_decay));
    RF_TRY(rf_json_number(object, "clip_value", &p->clip_value));
    RF_TRY(rf_json_number(object, "clip_norm", &p->clip_norm));
    RF_TRY(rf_json_number(object, "global_clip_norm", &p->global_clip_norm));
    RF_TRY(rf_json_u64(object, "accumulation_steps", &accumulation));
    if (accumulation > UINT32_MAX) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'accumulation_steps' is out of range");
    p->accumulation_steps = (uint32_t)accumulation;
    RF_TRY(rf_json_bool(object, "use_ema", &p->use_ema));
    RF_TRY(rf_json_number(object, "ema_momentum", &p->ema_momentum));
    RF_TRY(rf_json_u64(object, "ema_overwrite_frequency", &every));
    if (every > UINT32_MAX) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'ema_overwrite_frequency' is out of range");
    p->ema_overwrite_frequency = (uint32_t)every;
    RF_TRY(state_type_from_json(object, &p->state_type));
    p->kind = (rf_optimizer_kind)kind;
    p->schedule = schedule;
    drop_unused(p);
    rf_result r = groups_from_json(json_object_get(object, "groups"), p);
    if (r >= 0) r = loss_scale_from_json(object, p);
    if (r < 0) rf_optimizer_params_free(p);
    return r;
}

rf_result rf_optimizer_text(const rf_optimizer_config *config, char **text)
{
    return rf_json_text(rf_optimizer_to_json(&config->params, &config->schedule), text);
}

rf_result rf_optimizer_parse(const char *text, size_t size, rf_optimizer_params *params, rf_schedule *schedule)
{
    json_t *root;
    *params = (rf_optimizer_params){ 0 };
    RF_TRY(rf_json_parse(text, size, "optimizer", &root));
    const rf_result r = rf_optimizer_from_json(root, params, schedule);
    json_decref(root);
    return rf_error_context(r, "optimizer");
}
