/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that a model goes on with. All rows of a batch stand at the same place: where a prompt is longer than the
 * shortest one, its own tokens take the place of chosen ones. So no row has padding, and one number says where a step
 * of attention stands. */
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "replica/strategy.h"
#include "trace/trace.h"
#include "train/generate/sample.h"
#include "train/model/layer_graph.h"

/* Prompts are read in pieces of these sizes: few recordings for any length. */
static const uint32_t piece_sizes[] = { 64, 8, 1 };
enum { NUM_PIECES = sizeof(piece_sizes) / sizeof(piece_sizes[0]) };

/* Functions, keys and values of a model: they stay for later calls that ask for as many rows and not for more places.
 */
struct rf_generator {
    rf_model *model;
    uint32_t rows, room; /* of `kept`: [rows, heads, room, width] */
    bool cached;
    rf_variable **kept; /* keys and values of each use of attention */
    uint32_t num_kept;
    rf_tensor *cache;         /* in a trace: those, then their next values */
    rf_function *read, *next; /* without logits, and with those of the last step */
};

typedef struct generation {
    rf_model *model;
    const rf_generate_params *params;
    rf_generator *generator;
    uint32_t rows, places; /* `places` are read at most */
    uint32_t vocabulary;
    int32_t *tokens;          /* [rows, places + 1] */
    int32_t *piece;           /* [rows, places]: what a step reads */
    uint32_t *made;           /* new tokens of each row */
    bool *ended;              /* [rows] */
    rf_candidate *candidates; /* [vocabulary] */
} generation;

/* ---- models ---- */

static bool attends_causally(const rf_layer *layer, const rf_layer_use *use)
{
    return layer->u.attention.causal && use->num_in == 1 && use->mask == RF_NO_VALUE && use->num_out == 1;
}

/* Kinds that treat each step by itself, or are told where it stands. */
static bool reads_steps_alone(const rf_layer *layer)
{
    static const char *const types[] = { "Embedding",
                                         "PositionEmbedding",
                                         "SinePositionEncoding",
                                         "Dense",
                                         "EmbeddingHead",
                                         "LayerNormalization",
                                         "RMSNormalization",
                                         "Activation",
                                         "Rescaling",
                                         "Dropout",
                                         "Add",
                                         "Multiply" };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(layer->kind->type_name, types[i]) == 0) return true;
    return false;
}

/* Whether the model can be given pieces; `num_attention` are the uses of attention. Fails for attention that sees what
 * is still to come. */
static rf_result plan_cache(const rf_model *model, bool *can, uint32_t *num_attention)
{
    const rf_layer_graph *graph = model->graph;
    *can = graph != NULL;
    *num_attention = 0;
    for (uint32_t i = 0; graph && i < graph->uses.count; i++) {
        const rf_layer *layer = model->layers.items[graph->uses.items[i].layer];
        if (!layer->kind->takes_cache) {
            *can = *can && reads_steps_alone(layer);
            continue;
        }
        RF_REQUIRE(layer->u.attention.causal,
                   "rf_model_generate: layer '%s' attends to later steps; a model that generates is causal",
                   layer->name);
        *can = *can && attends_causally(layer, &graph->uses.items[i]);
        ++*num_attention;
    }
    return RF_OK;
}

/* The most places that layers have; UINT32_MAX without bound. `layer` has them. */
static uint32_t most_places(const rf_model *model, const rf_layer **layer)
{
    uint32_t most = UINT32_MAX;
    for (uint32_t i = 0; i < model->layers.count; i++) {
        const rf_layer *l = model->layers.items[i];
        if (strcmp(l->kind->type_name, "PositionEmbedding") != 0 || (uint32_t)l->u.position.max_length >= most)
            continue;
        most = (uint32_t)l->u.position.max_length;
        *layer = l;
    }
    return most;
}

static rf_result check_model(const rf_model *model)
{
    RF_TRY(rf_model_check_alive(model, "rf_model_generate"));
    RF_REQUIRE(model->built, "rf_model_generate: the model is not built");
    RF_REQUIRE(model->num_inputs == 1 && model->num_outputs == 1 && model->inputs[0].dtype == RF_I32 &&
                   model->inputs[0].shape.rank == 1 && model->outputs[0].dtype == RF_F32 &&
                   model->outputs[0].shape.rank == 2,
               "rf_model_generate: the model does not make logits f32 [n, steps, vocabulary] of tokens i32 [n, steps]");
    return RF_OK;
}

static rf_result check_params(const rf_model *model, const rf_generate_params *p)
{
    RF_REQUIRE(p->prompts && p->num_prompts > 0, "rf_model_generate: there are no prompts");
    RF_REQUIRE(p->max_new_tokens > 0, "rf_model_generate: max_new_tokens is 0, must be positive");
    RF_REQUIRE(p->stop_tokens || p->num_stop_tokens == 0, "rf_model_generate: stop_tokens is NULL");
    RF_TRY(rf_sampling_check(&p->sampling, "rf_model_generate"));
    const int64_t vocabulary = model->outputs[0].shape.dim[1];
    for (uint32_t i = 0; i < p->num_prompts; i++) {
        const rf_array *a = &p->prompts[i];
        RF_REQUIRE(a->data && a->dtype == RF_I32 && a->shape.rank == 1 && a->shape.dim[0] > 0 &&
                       a->shape.dim[0] <= INT32_MAX - (int64_t)p->max_new_tokens,
                   "rf_model_generate: prompt %u is not i32 [k] of 1 token or more", i);
        for (int64_t k = 0; k < a->shape.dim[0]; k++) {
            const int32_t token = ((const int32_t *)a->data)[k];
            RF_REQUIRE(token >= 0 && token < vocabulary,
                       "rf_model_generate: prompt %u has token %d; the model knows %lld", i, (int)token,
                       (long long)vocabulary);
        }
    }
    return RF_OK;
}

/* ---- steps: tokens [1, rows, t], and the place of the first or of the last one [1, 1], on one replica ---- */

static rf_tensor first_example(rf_trace *t, rf_tensor batch)
{
    const int64_t begin = 0, end = 1;
    return rf_squeeze(t, rf_slice(t, batch, &begin, &end, NULL, 1), 0);
}

static rf_result go_on(rf_trace *t, const rf_generator *g, const rf_tensor *in, rf_tensor *logits)
{
    const rf_tensor tokens = first_example(t, in[0]), start = first_example(t, in[1]);
    const rf_model_pieces pieces = { .start = start, .cache = g->cache, .kept = g->cache + g->num_kept };
    for (uint32_t i = 0; i < g->num_kept; i++) g->cache[i] = rf_variable_tensor(t, g->kept[i]);
    RF_TRY(rf_model_apply_piece(t, g->model, &tokens, &pieces, logits));
    for (uint32_t i = 0; i < g->num_kept; i++)
        (void)rf_variable_update(t, g->kept[i], pieces.kept[i], RF_AGGREGATE_FIRST_REPLICA);
    return rf_trace_status(t);
}

static rf_result read_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out;
    rf_tensor unused;
    return go_on(t, user, in, &unused);
}

static rf_result next_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const rf_generator *g = user;
    rf_tensor logits;
    if (g->cached) {
        RF_TRY(go_on(t, g, in, &logits));
    } else {
        const rf_tensor tokens = first_example(t, in[0]);
        RF_TRY(rf_model_apply_all(t, g->model, &tokens, RF_INFERENCE, &logits));
        logits = rf_gather(t, logits, first_example(t, in[1]), 1);
    }
    if (rf_tensor_dtype(t, logits) != RF_F32) logits = rf_cast(t, logits, RF_F32);
    out[0] = rf_squeeze(t, logits, 1);
    return rf_trace_status(t);
}

/* ---- running ---- */

/* Runs a step on `count` tokens of each row from `first` on. `results` NULL: what is read is kept alone. */
static rf_result step_run(generation *g, uint32_t first, uint32_t count, int32_t place, rf_per_replica **results)
{
    for (uint32_t r = 0; r < g->rows; r++)
        memcpy(g->piece + (size_t)r * count, g->tokens + (size_t)r * (g->places + 1) + first, count * sizeof(int32_t));
    const rf_element batch = { .num_components = 2,
                               .component = { { RF_I32, RF_SHAPE(1, g->rows, count), g->piece },
                                              { RF_I32, RF_SHAPE(1, 1), &place } } };
    return rf_strategy_run(g->model->strategy, results ? g->generator->next : g->generator->read, &batch, results);
}

/* All tokens before `end`, from place 0 on. */
static rf_result read_prompts(generation *g, uint32_t end)
{
    for (uint32_t first = 0, size = 0; first < end;) {
        while (piece_sizes[size] > end - first) size++;
        RF_TRY(step_run(g, first, piece_sizes[size], (int32_t)first, NULL));
        first += piece_sizes[size];
    }
    return RF_OK;
}

static bool is_stop(const rf_generate_params *p, int32_t token)
{
    for (uint32_t i = 0; i < p->num_stop_tokens; i++)
        if (p->stop_tokens[i] == token) return true;
    return false;
}

/* The token of a row at `place`, unless the prompt has one there. */
static rf_result token_choose(generation *g, uint32_t row, uint32_t place, const float *logits)
{
    const rf_generate_params *p = g->params;
    int32_t *text = g->tokens + (size_t)row * (g->places + 1), token;
    if ((int64_t)place < p->prompts[row].shape.dim[0] || g->ended[row]) return RF_OK;
    const double uniform = rf_sampling_uniform(p->seed, p->first_prompt + row, g->made[row]);
    const rf_result r =
        rf_sample_token(&p->sampling, logits, g->vocabulary, text, place, uniform, g->candidates, &token);
    RF_TRY(rf_error_context(r, "rf_model_generate: prompt %u", row));
    text[place] = token;
    g->made[row]++;
    const bool more = !p->on_token || p->on_token(p->first_prompt + row, token, p->user);
    g->ended[row] = !more || g->made[row] == p->max_new_tokens || is_stop(p, token);
    return RF_OK;
}

static rf_result choose_all(generation *g, uint32_t place, rf_per_replica *result)
{
    rf_array logits = { 0 };
    RF_TRY(rf_strategy_gather(g->model->strategy, result, &logits));
    rf_result r = RF_OK;
    for (uint32_t row = 0; r >= 0 && row < g->rows; row++)
        r = token_choose(g, row, place, (const float *)logits.data + (size_t)row * g->vocabulary);
    rf_array_free(&logits);
    return r;
}

static bool all_ended(const generation *g)
{
    for (uint32_t row = 0; row < g->rows; row++)
        if (!g->ended[row]) return false;
    return true;
}

static rf_result write_texts(generation *g, uint32_t shortest)
{
    const bool before = rf_strategy_stop_agreed(g->model->strategy), cached = g->generator->cached;
    if (cached) RF_TRY(read_prompts(g, shortest - 1));
    for (uint32_t last = shortest - 1; !all_ended(g); last++) {
        rf_per_replica *results[1];
        RF_TRY(step_run(g, cached ? last : 0, cached ? 1 : g->places, (int32_t)last, results));
        RF_TRY(choose_all(g, last + 1, results[0]));
        if (!before && rf_strategy_stop_agreed(g->model->strategy))
            return RF_FAIL(RF_ERROR_CANCELLED, "rf_model_generate: stopped on request");
    }
    return RF_OK;
}

/* ---- what later calls find again ---- */

static rf_result add_kept(rf_generator *g, int64_t heads, int64_t width)
{
    const rf_variable_params params = { .name = "generation/cache",
                                        .shape = RF_SHAPE(g->rows, heads, g->room, width),
                                        .initializer = { .kind = RF_INIT_ZEROS },
                                        .not_trainable = true };
    RF_TRY(rf_variable_create(g->model->strategy, &params, &g->kept[g->num_kept]));
    g->num_kept++;
    return RF_OK;
}

static rf_result create_cache(rf_generator *g, uint32_t num_attention)
{
    const rf_layer_graph *graph = g->model->graph;
    g->kept = RF_NEW_ARRAY(rf_variable *, 2 * (size_t)num_attention + 1);
    g->cache = RF_NEW_ARRAY(rf_tensor, 4 * (size_t)num_attention + 1);
    if (!g->kept || !g->cache) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < graph->uses.count; i++) {
        const rf_layer *layer = g->model->layers.items[graph->uses.items[i].layer];
        if (!layer->kind->takes_cache) continue;
        RF_TRY(add_kept(g, layer->u.attention.num_key_value_heads, layer->u.attention.key_dim));
        RF_TRY(add_kept(g, layer->u.attention.num_key_value_heads, layer->u.attention.value_dim));
    }
    const rf_function_params read = { .step = read_step, .user = g, .name = "read_prompt" };
    return rf_function_create(g->model->strategy, &read, &g->read);
}

static void generator_destroy(rf_generator **generator)
{
    rf_generator *g = *generator;
    if (!g) return;
    *generator = NULL;
    rf_function_destroy(&g->read);
    rf_function_destroy(&g->next);
    for (uint32_t i = 0; i < g->num_kept; i++) rf_variable_destroy(&g->kept[i]);
    rf_free(g->kept);
    rf_free(g->cache);
    rf_free(g);
}

/* Whether angles of positions depend on how long the rows are: a cache then has to be just as long. */
static bool length_counts(const rf_model *model)
{
    for (uint32_t i = 0; i < model->layers.count; i++) {
        const rf_layer *l = model->layers.items[i];
        if (l->kind->takes_cache && l->u.attention.rotary.scaling == RF_ROTARY_DYNAMIC) return true;
    }
    return false;
}

/* A cache has more room than is asked for, so that texts may grow from call to call. */
static uint32_t choose_room(const rf_model *model, uint32_t places)
{
    const rf_layer *layer;
    const uint32_t most = length_counts(model) ? places : most_places(model, &layer);
    const uint64_t room = places > 256 ? rf_align_up(places, 256) : 256;
    return room < most ? (uint32_t)room : most;
}

static rf_result generator_create(rf_model *model, uint32_t rows, uint32_t room, bool cached, uint32_t num_attention)
{
    rf_generator *g = RF_NEW(rf_generator);
    if (!g) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *g = (rf_generator){ .model = model, .rows = rows, .room = room, .cached = cached };
    model->generator = g;
    model->destroy_generator = generator_destroy;
    if (cached) RF_TRY(create_cache(g, num_attention));
    const rf_function_params next = { .step = next_step, .user = g, .num_outputs = 1, .name = "next_token" };
    return rf_function_create(model->strategy, &next, &g->next);
}

/* Without a cache, functions are traced for each shape, and stay whatever is asked for. */
static rf_result find_generator(generation *g)
{
    uint32_t num_attention;
    bool can;
    RF_TRY(plan_cache(g->model, &can, &num_attention));
    const bool cached = can && !g->params->no_cache;
    rf_generator *kept = g->model->generator;
    const bool roomy = kept && (length_counts(g->model) ? kept->room == g->places : kept->room >= g->places);
    const bool fits = kept && kept->cached == cached && (!cached || (kept->rows == g->rows && roomy));
    if (!fits) {
        if (kept) generator_destroy(&g->model->generator);
        RF_TRY(generator_create(g->model, g->rows, choose_room(g->model, g->places), cached, num_attention));
    }
    g->generator = g->model->generator;
    return RF_OK;
}

/* ---- lifetime ---- */

static rf_result set_places(generation *g, uint32_t longest)
{
    const rf_generate_params *p = g->params;
    const rf_layer *layer = NULL;
    g->places = longest + p->max_new_tokens - 1;
    if (rf_model_is_data(g->model)) {
        const uint32_t most = most_places(g->model, &layer);
        RF_REQUIRE(g->places <= most, "rf_model_generate: prompt and new tokens are %u; layer '%s' has places for %u",
                   g->places, layer->name, most);
        return RF_OK;
    }
    const int64_t steps = g->model->inputs[0].shape.dim[0];
    RF_REQUIRE((int64_t)g->places <= steps,
               "rf_model_generate: prompt and new tokens are %u; the model was built for %lld", g->places,
               (long long)steps);
    g->places = (uint32_t)steps;
    return RF_OK;
}

static rf_result generation_begin(generation *g, uint32_t longest)
{
    const rf_generate_params *p = g->params;
    RF_TRY(set_places(g, longest));
    g->vocabulary = (uint32_t)g->model->outputs[0].shape.dim[1];
    g->tokens = RF_NEW_ARRAY(int32_t, (size_t)g->rows * ((size_t)g->places + 1));
    g->piece = RF_NEW_ARRAY(int32_t, (size_t)g->rows * g->places);
    g->made = RF_NEW_ARRAY(uint32_t, g->rows);
    g->ended = RF_NEW_ARRAY(bool, g->rows);
    g->candidates = RF_NEW_ARRAY(rf_candidate, g->vocabulary);
    if (!g->tokens || !g->piece || !g->made || !g->ended || !g->candidates) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < g->rows; r++)
        memcpy(g->tokens + (size_t)r * (g->places + 1), p->prompts[r].data,
               (size_t)p->prompts[r].shape.dim[0] * sizeof(int32_t));
    return find_generator(g);
}

/* A call that failed may have left something half done, which is not kept. */
static void generation_end(generation *g, rf_result r)
{
    if (r < 0 && g->model->generator) generator_destroy(&g->model->generator);
    void *all[] = { g->tokens, g->piece, g->made, g->ended, g->candidates };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) rf_free(all[i]);
}

/* The new tokens of each row. */
static rf_result copy_texts(const generation *g, rf_array *texts)
{
    for (uint32_t r = 0; r < g->rows; r++) {
        const int64_t prompt = g->params->prompts[r].shape.dim[0];
        int32_t *data = RF_NEW_ARRAY(int32_t, g->made[r]);
        if (!data) return RF_ERROR_OUT_OF_HOST_MEMORY;
        memcpy(data, g->tokens + (size_t)r * (g->places + 1) + prompt, g->made[r] * sizeof(int32_t));
        texts[r] = (rf_array){ RF_I32, RF_SHAPE(g->made[r]), data };
    }
    return RF_OK;
}

rf_result rf_model_generate(rf_model *model, const rf_generate_params *params, rf_array *texts)
{
    RF_TRY(RF_PARAMS_CHECK(rf_generate_params, params));
    RF_REQUIRE(model, "rf_model_generate: model is NULL");
    RF_REQUIRE(params && texts, "rf_model_generate: %s is NULL", params ? "texts" : "params");
    memset(texts, 0, params->num_prompts * sizeof(*texts));
    RF_TRY(check_model(model));
    RF_TRY(check_params(model, params));
    generation g = { .model = model, .params = params, .rows = params->num_prompts };
    int64_t shortest = INT64_MAX, longest = 0;
    for (uint32_t i = 0; i < params->num_prompts; i++) {
        const int64_t length = params->prompts[i].shape.dim[0];
        if (length < shortest) shortest = length;
        if (length > longest) longest = length;
    }
    rf_result r = generation_begin(&g, (uint32_t)longest);
    if (r >= 0) r = write_texts(&g, (uint32_t)shortest);
    if (r >= 0) r = copy_texts(&g, texts);
    generation_end(&g, r);
    for (uint32_t i = 0; r < 0 && i < params->num_prompts; i++) rf_array_free(&texts[i]);
    return r;
}
