/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files as functional models. */
#include <stdio.h>
#include <string.h>

#include "base/params.h"
#include "base/platform.h"
#include "persist/file_ops.h"
#include "train/checkpoint/checkpoint.h"
#include "train/onnx/import.h"

/* Folding makes so many numbers at most, besides some for each byte of the file. */
enum { OLDEST_OPSET = 6, NEWEST_OPSET = 21, MOST_FOLDED = 1 << 22 };

/* ---- bytes ---- */

typedef struct blob {
    uint8_t *bytes;
    uint64_t size, main_size; /* the file, then the parts of others that tensors name */
    uint64_t room;
    const char *path;
    struct {
        const char **items; /* of the files that were read, each once */
        uint32_t count, capacity;
    } locations;
    uint64_t allowed; /* bytes of all of them: tensors do not share theirs */
} blob;

/* The parts of a path must not lead out of the directory of the file. */
static bool stays_inside(const char *location)
{
    if (*location == '/' || strchr(location, '\\') || strchr(location, ':')) return false;
    for (const char *part = location; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == 0)) return false;
    return true;
}

static rf_result blob_room(blob *b, uint64_t more)
{
    if (more > SIZE_MAX - b->size) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (b->size + more <= b->room) return RF_OK;
    uint64_t room = b->room * 2 > b->size + more ? b->room * 2 : b->size + more;
    uint8_t *bytes = rf_calloc((size_t)room, 1);
    if (!bytes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (b->size) memcpy(bytes, b->bytes, b->size);
    rf_free(b->bytes);
    b->bytes = bytes;
    b->room = room;
    return RF_OK;
}

static rf_result append_range(blob *b, int fd, const char *path, uint64_t offset, uint64_t size)
{
    RF_TRY(blob_room(b, size));
    RF_TRY(rf_file_read_at(&rf_system_file_ops, fd, path, b->bytes + b->size, size, offset));
    b->size += size;
    return RF_OK;
}

static rf_result allow_file(blob *b, const char *location, uint64_t size)
{
    for (uint32_t i = b->locations.count; i-- > 0;)
        if (strcmp(b->locations.items[i], location) == 0) return RF_OK;
    RF_TRY(RF_VEC_GROW(&b->locations));
    b->locations.items[b->locations.count++] = location;
    b->allowed += size;
    return RF_OK;
}

static rf_result read_external(void *user, rf_import_tensor *t)
{
    blob *b = user;
    int fd;
    uint64_t size;
    if (!stays_inside(t->location))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "tensor '%s' has its data in '%s', outside of the file's directory",
                       t->name, t->location);
    char *path = rf_path_beside(b->path, t->location);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_file_open_sized(&rf_system_file_ops, path, &fd, &size);
    if (r >= 0) {
        const uint64_t length = t->has_length ? t->length : size > t->offset ? size - t->offset : 0;
        const uint64_t want = (uint64_t)rf_shape_count(t->shape) * rf_import_type_size(t->type);
        if (length != want || t->offset > size || length > size - t->offset)
            r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': tensor '%s' has %llu bytes at %llu, of a file of %llu", path,
                        t->name, (unsigned long long)want, (unsigned long long)t->offset, (unsigned long long)size);
        if (r >= 0) r = allow_file(b, t->location, size);
        if (r >= 0 && b->size - b->main_size + length > b->allowed)
            r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': tensors share their data", path);
        if (r >= 0) r = append_range(b, fd, path, t->offset, length);
        rf_system_file_ops.close(rf_system_file_ops.user, fd);
    }
    rf_free(path);
    return r;
}

/* The chief's part. */
static rf_result read_files(blob *b)
{
    int fd;
    uint64_t size;
    rf_import_file file = { 0 };
    RF_TRY(rf_file_open_sized(&rf_system_file_ops, b->path, &fd, &size));
    rf_result r = append_range(b, fd, b->path, 0, size);
    rf_system_file_ops.close(rf_system_file_ops.user, fd);
    RF_TRY(r);
    b->main_size = size;
    r = rf_error_context(rf_import_parse(&file, b->bytes, (size_t)size), "'%s'", b->path);
    /* The tensors of this reading point to bytes that may move: only their places are looked at. */
    if (r >= 0) r = rf_import_each_external(&file, read_external, b);
    rf_free(b->locations.items);
    rf_import_file_clear(&file);
    return r;
}

static rf_result share_bytes(rf_strategy *strategy, blob *b)
{
    uint64_t sizes[] = { b->size, b->main_size };
    if (rf_strategy_world_size(strategy) == 1) return RF_OK;
    RF_TRY(rf_broadcast_bytes(strategy, "sizes of a model", sizes, sizeof(sizes)));
    if (!rf_strategy_is_chief(strategy)) b->bytes = rf_calloc((size_t)sizes[0] + 1, 1);
    RF_TRY(rf_strategy_fail_in_job(strategy, b->bytes ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY));
    b->size = sizes[0];
    b->main_size = sizes[1];
    return rf_broadcast_bytes(strategy, "model", b->bytes, b->size);
}

typedef struct attach {
    const blob *b;
    uint64_t at;
} attach;

static rf_result attach_external(void *user, rf_import_tensor *t)
{
    attach *a = user;
    const uint64_t size = (uint64_t)rf_shape_count(t->shape) * rf_import_type_size(t->type);
    if (size > a->b->size - a->at) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "tensor '%s' has no data", t->name);
    t->raw = (rf_import_bytes){ a->b->bytes + a->at, (size_t)size };
    a->at += size;
    return RF_OK;
}

rf_result rf_import_parse_all(rf_import_file *file, const uint8_t *bytes, size_t size, size_t main_size)
{
    const blob b = { .bytes = (uint8_t *)(uintptr_t)bytes, .size = size };
    attach a = { &b, main_size };
    RF_TRY(rf_import_parse(file, bytes, main_size));
    return rf_import_each_external(file, attach_external, &a);
}

/* ---- values of a graph ---- */

static void count_graph(const rf_import_graph *g, uint32_t *count)
{
    *count += g->num_inputs + g->num_initializers;
    for (uint32_t i = 0; i < g->num_nodes; i++) {
        *count += g->nodes[i].num_out;
        for (uint32_t k = 0; k < g->nodes[i].num_attributes; k++)
            if (g->nodes[i].attributes[k].g) count_graph(g->nodes[i].attributes[k].g, count);
    }
}

/* Numbers that the library's own files have as initializers are no weights. */
static bool is_trained(const rf_import *im, const char *name)
{
    static const char *const own[] = { "number_", "list_",   "constant_", "classes",
                                       "gates",   "no_bias", "scales",    "tensor/" };
    if (strcmp(im->file.producer, "ringfire") != 0) return true;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strncmp(name, own[i], strlen(own[i])) == 0)
            return strncmp(name, "tensor/", 7) == 0 && is_trained(im, name + 7);
    return true;
}

static rf_result add_graph_values(rf_import *im, const rf_import_graph *g)
{
    for (uint32_t i = 0; i < g->num_initializers; i++) {
        const rf_import_tensor *t = &g->initializers[i];
        if (!*t->name) continue;
        rf_import_value *v = rf_import_add_value(im, t->name);
        if (!v || v->kind != RF_IMPORT_UNKNOWN) continue;
        RF_TRY(rf_import_tensor_constant(im, t, is_trained(im, t->name) ? t->name : NULL, &v->constant));
        v->kind = RF_IMPORT_CONSTANT;
    }
    for (uint32_t i = 0; i < g->num_inputs; i++) (void)rf_import_add_value(im, g->inputs[i].name);
    for (uint32_t i = 0; i < g->num_nodes; i++) {
        for (uint32_t k = 0; k < g->nodes[i].num_out; k++) (void)rf_import_add_value(im, g->nodes[i].out[k]);
        for (uint32_t k = 0; k < g->nodes[i].num_attributes; k++)
            if (g->nodes[i].attributes[k].g) RF_TRY(add_graph_values(im, g->nodes[i].attributes[k].g));
    }
    return RF_OK;
}

static rf_result find_values(rf_import *im)
{
    uint32_t count = 0;
    count_graph(&im->file.graph, &count);
    if (count > 1 << 22) return RF_FAIL(RF_ERROR_UNSUPPORTED, "the graph has too many values");
    im->most_values = count + 4 * im->file.graph.num_nodes; /* patterns add vectors of norms */
    im->table_size = 2 * im->most_values + 1;
    im->table = rf_import_alloc(im, im->table_size * sizeof(*im->table));
    im->values = rf_import_alloc(im, (im->most_values + 1) * sizeof(*im->values));
    if (!im->table || !im->values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return add_graph_values(im, &im->file.graph);
}

/* ---- what is needed ---- */

static void need_names(rf_import *im, const rf_import_node *n, bool *needed)
{
    for (uint32_t i = 0; i < n->num_in; i++) {
        const rf_import_value *v = rf_import_find(im, n->in[i]);
        if (v) needed[rf_import_number_of(im, v)] = true;
    }
    for (uint32_t k = 0; k < n->num_attributes; k++) {
        const rf_import_graph *g = n->attributes[k].g;
        for (uint32_t i = 0; g && i < g->num_nodes; i++) need_names(im, &g->nodes[i], needed);
        for (uint32_t i = 0; g && i < g->num_outputs; i++) {
            const rf_import_value *v = rf_import_find(im, g->outputs[i].name);
            if (v) needed[rf_import_number_of(im, v)] = true;
        }
    }
}

static bool makes_needed(rf_import *im, const rf_import_node *n, const bool *needed)
{
    for (uint32_t i = 0; i < n->num_out; i++) {
        const rf_import_value *v = rf_import_find(im, n->out[i]);
        if (v && needed[rf_import_number_of(im, v)]) return true;
    }
    return false;
}

static rf_result lower_graph(rf_import *im, const rf_import_graph *g);

/* A branch whose condition is known takes the node's place. */
static rf_result lower_branch(rf_import *im, const rf_import_node *n)
{
    const rf_import_constant *c = n->num_in == 1 ? rf_import_known(rf_import_find(im, n->in[0])) : NULL;
    if (!c || rf_import_count(c) != 1 || rf_import_has_sizes(c))
        return rf_import_fail(n, RF_ERROR_UNSUPPORTED, "its condition is not known at import");
    const rf_import_attribute *a =
        rf_import_find_attribute(n, rf_import_element(c, 0) != 0 ? "then_branch" : "else_branch");
    if (!a || !a->g || a->g->num_outputs < n->num_out)
        return rf_import_fail(n, RF_ERROR_CORRUPT_DATA, "its branch is missing");
    RF_TRY(lower_graph(im, a->g));
    for (uint32_t i = 0; i < n->num_out; i++) {
        const rf_import_value *from = rf_import_find(im, a->g->outputs[i].name);
        rf_import_value *to = rf_import_find(im, n->out[i]);
        if (!to) continue;
        if (!from || from->kind == RF_IMPORT_UNKNOWN)
            return rf_import_fail(n, RF_ERROR_CORRUPT_DATA, "its branch makes no '%.100s'", a->g->outputs[i].name);
        const rf_import_value before = *to;
        *to = *from;
        to->name = before.name;
        to->uses = before.uses;
        to->consumer = before.consumer;
    }
    return RF_OK;
}

static rf_result lower_node(rf_import *im, const rf_import_node *n)
{
    bool done;
    const rf_import_value *out = n->num_out ? rf_import_find(im, n->out[0]) : NULL;
    if (out && out->kind != RF_IMPORT_UNKNOWN) return RF_OK; /* a layer before it has done it */
    if (*n->domain && strcmp(n->domain, "ai.onnx") != 0)
        return rf_import_fail(n, RF_ERROR_UNSUPPORTED, "its operation is of the domain '%.60s'", n->domain);
    if (strcmp(n->op, "If") == 0) return lower_branch(im, n);
    rf_import_node renewed;
    RF_TRY(rf_import_renew(im, n, &renewed));
    RF_TRY(rf_import_fold(im, &renewed, &done));
    /* A layer may look at the nodes that follow this one in the file. */
    if (!done) RF_TRY(rf_import_layer(im, renewed.in == n->in ? n : &renewed, &done));
    return done ? RF_OK : rf_import_lower(im, &renewed);
}

static rf_result lower_graph(rf_import *im, const rf_import_graph *g)
{
    bool *needed = RF_NEW_ARRAY(bool, im->num_values + 1);
    bool *nodes = RF_NEW_ARRAY(bool, g->num_nodes);
    rf_result r = needed && nodes ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < g->num_outputs; i++) {
        const rf_import_value *v = rf_import_find(im, g->outputs[i].name);
        if (v) needed[rf_import_number_of(im, v)] = true;
    }
    for (uint32_t i = g->num_nodes; r >= 0 && i-- > 0;) {
        nodes[i] = makes_needed(im, &g->nodes[i], needed);
        if (nodes[i]) need_names(im, &g->nodes[i], needed);
    }
    for (uint32_t i = 0; r >= 0 && i < g->num_nodes; i++)
        if (nodes[i]) r = lower_node(im, &g->nodes[i]);
    rf_free(needed);
    rf_free(nodes);
    return r;
}

static void count_uses(rf_import *im)
{
    const rf_import_graph *g = &im->file.graph;
    for (uint32_t i = 0; i < g->num_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].num_in; k++) {
            rf_import_value *v = rf_import_find(im, g->nodes[i].in[k]);
            if (!v) continue;
            v->uses++;
            v->consumer = i;
        }
    for (uint32_t i = 0; i < g->num_outputs; i++) {
        rf_import_value *v = rf_import_find(im, g->outputs[i].name);
        if (v) v->uses++;
    }
}

/* ---- inputs and outputs ---- */

/* Letters, digits and "_", each name once. */
static char *port_name(rf_import *im, const char *name, char *const *before, uint32_t count)
{
    const size_t room = strlen(name) + 16;
    char *copy = rf_import_alloc(im, room);
    if (!copy) return NULL;
    snprintf(copy, room, "%s", *name ? name : "tensor");
    for (char *c = copy; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9'))) *c = '_';
    for (uint32_t i = 0, n = 2; i < count; i++) {
        if (strcmp(before[i], copy) != 0) continue;
        snprintf(copy + strlen(name), 16, "_%u", n++);
        i = UINT32_MAX;
    }
    return copy;
}

static bool is_used(rf_import *im, const char *name)
{
    const rf_import_value *v = rf_import_find(im, name);
    return v && v->uses > 0;
}

static rf_result add_input(rf_import *im, const rf_import_port *p, const rf_import_onnx_params *params, uint32_t number,
                           char **names)
{
    rf_import_value *v = rf_import_find(im, p->name);
    if (!p->has_shape || p->shape.rank < 1)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "input '%s' has no batch, which is the first dimension", p->name);
    rf_shape example = { .rank = p->shape.rank - 1 };
    char given[96], text[96];
    for (int32_t d = 0; d < example.rank; d++) example.dim[d] = p->shape.dim[d + 1];
    if (params && number < params->num_input_shapes) {
        const rf_shape wanted = params->input_shapes[number];
        bool fits = wanted.rank == example.rank;
        for (int32_t d = 0; fits && d < wanted.rank; d++) fits = example.dim[d] < 0 || example.dim[d] == wanted.dim[d];
        if (!fits)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "input_shapes[%u] %s does not fit input '%s' %s", number,
                           rf_shape_format(wanted, given, sizeof(given)), p->name,
                           rf_shape_format(example, text, sizeof(text)));
        example = wanted;
    }
    names[number] = port_name(im, p->name, names, number);
    if (!names[number]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const bool whole = p->type != RF_IMPORT_TYPE_BOOL && p->type != 0 && !rf_import_type_is_float(p->type);
    v->kind = RF_IMPORT_TENSOR;
    v->rank = p->shape.rank;
    v->whole = whole;
    v->truth = p->type == RF_IMPORT_TYPE_BOOL;
    v->symbol = rf_model_builder_input(im->builder, whole ? RF_I32 : RF_F32, example, names[number]);
    if (!im->any.id) im->any = v->symbol;
    return RF_OK;
}

static rf_result add_inputs(rf_import *im, const rf_import_onnx_params *params)
{
    const rf_import_graph *g = &im->file.graph;
    char *names[RF_MAX_COMPONENTS];
    uint32_t number = 0;
    for (uint32_t i = 0; i < g->num_inputs; i++) {
        rf_import_value *v = rf_import_find(im, g->inputs[i].name);
        if (!v || v->kind == RF_IMPORT_CONSTANT || v->kind == RF_IMPORT_TENSOR || !is_used(im, v->name)) continue;
        if (number == RF_MAX_COMPONENTS)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "the model has more than %d inputs", RF_MAX_COMPONENTS);
        RF_TRY(add_input(im, &g->inputs[i], params, number, names));
        const int64_t batch = g->inputs[i].shape.dim[0];
        im->batch = number == 0 || im->batch == batch ? batch : 0;
        number++;
    }
    if (params && params->num_input_shapes > number)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "num_input_shapes is %u; the model has %u inputs",
                       params->num_input_shapes, number);
    return number ? RF_OK : RF_FAIL(RF_ERROR_UNSUPPORTED, "the model has no inputs");
}

/* A copy under a name of its own: a model's output is none of its inputs. */
static rf_result copy_symbol(rf_import *im, rf_symbol x, rf_symbol *out)
{
    rf_layer *layer;
    json_t *config = json_pack("{s:s, s:i, s:i, s:i, s:{}, s:[{s:i}]}", "op", "Identity", "opset", 13, "tensors", 1,
                               "out", 1, "attributes", "in", "tensor", 0);
    const char *name = rf_import_layer_name(im, NULL, "identity");
    if (!config || !name) {
        json_decref(config);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    RF_TRY(rf_import_op_layer(config, name, &layer));
    return rf_model_builder_apply(im->builder, layer, &x, 1, (rf_symbol){ 0 }, out, 1);
}

static rf_result finish_model(rf_import *im, rf_model **out)
{
    const rf_import_graph *g = &im->file.graph;
    rf_symbol outputs[RF_MAX_COMPONENTS];
    char *names[RF_MAX_COMPONENTS];
    if (g->num_outputs < 1 || g->num_outputs > RF_MAX_COMPONENTS)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the model has %u outputs; there may be 1 to %d", g->num_outputs,
                       RF_MAX_COMPONENTS);
    for (uint32_t i = 0; i < g->num_outputs; i++) {
        rf_import_value *v = rf_import_find(im, g->outputs[i].name);
        if (!v || v->kind != RF_IMPORT_TENSOR)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "output '%s' is computed from no input", g->outputs[i].name);
        RF_TRY(rf_import_in_order(im, v, &outputs[i]));
        bool taken = false;
        for (uint32_t k = 0; k < i; k++) taken |= outputs[k].id == outputs[i].id;
        for (uint32_t k = 0; k < g->num_inputs; k++) {
            const rf_import_value *input = rf_import_find(im, g->inputs[k].name);
            taken |= input && input->kind == RF_IMPORT_TENSOR && input->symbol.id == outputs[i].id;
        }
        if (taken) RF_TRY(copy_symbol(im, outputs[i], &outputs[i]));
        names[i] = port_name(im, g->outputs[i].name, names, i);
        if (!names[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return rf_model_builder_finish(&im->builder, outputs, g->num_outputs, (const char *const *)names, out);
}

/* ---- the model ---- */

static rf_result admit_any(void *user, const char *name, rf_shape shape)
{
    (void)user;
    (void)name;
    (void)shape;
    return RF_OK;
}

static rf_result assign_weights(const rf_import *im)
{
    for (uint32_t i = 0; i < im->weights.count; i++) {
        const rf_import_weight *w = &im->weights.items[i];
        rf_variable *v = rf_layer_variable(w->layer, w->variable);
        if (!v || (uint64_t)rf_shape_count(rf_variable_shape(v)) != w->count)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "layer '%s' has no place for its '%s'", rf_layer_name(w->layer),
                           w->variable);
        RF_TRY(rf_variable_assign(v, w->values));
    }
    return RF_OK;
}

static rf_result check_opset(const rf_import_file *file)
{
    if (file->opset >= OLDEST_OPSET && file->opset <= NEWEST_OPSET) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "the file has operations of opset %lld; %d to %d are known here",
                   (long long)file->opset, OLDEST_OPSET, NEWEST_OPSET);
}

static rf_result lower_file(rf_import *im, rf_strategy *strategy, const rf_import_onnx_params *params)
{
    RF_TRY(check_opset(&im->file));
    RF_TRY(find_values(im));
    RF_TRY(rf_import_join_patterns(im));
    count_uses(im);
    RF_TRY(rf_model_builder_create(strategy, &im->builder));
    RF_TRY(add_inputs(im, params));
    return lower_graph(im, &im->file.graph);
}

rf_result rf_import_lower_bytes(rf_import *im, rf_strategy *strategy, const uint8_t *bytes, size_t size,
                                size_t main_size, const rf_import_onnx_params *params)
{
    *im = (rf_import){ .most_folded = MOST_FOLDED + 8 * (uint64_t)size };
    RF_TRY(rf_import_parse_all(&im->file, bytes, size, main_size));
    return lower_file(im, strategy, params);
}

void rf_import_clear(rf_import *im)
{
    rf_model_builder_destroy(&im->builder);
    rf_free(im->sizes.items);
    rf_free(im->weights.items);
    rf_free(im->names.items);
    rf_free(im->shared.items);
    rf_import_file_clear(&im->file);
}

static rf_result make_model(rf_strategy *strategy, const blob *b, const rf_import_onnx_params *params, rf_model **out)
{
    rf_import im;
    const rf_variable_source source = { .admit = admit_any };
    rf_result r = rf_import_lower_bytes(&im, strategy, b->bytes, (size_t)b->size, (size_t)b->main_size, params);
    if (r >= 0) {
        rf_strategy_set_variable_source(strategy, &source);
        r = finish_model(&im, out);
        rf_strategy_set_variable_source(strategy, NULL);
    }
    if (r >= 0) r = assign_weights(&im);
    if (r < 0) rf_model_destroy(out);
    rf_import_clear(&im);
    return r;
}

rf_result rf_model_import_onnx(rf_strategy *strategy, const char *path, const rf_import_onnx_params *params,
                               rf_model **out)
{
    RF_REQUIRE(out, "rf_model_import_onnx: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_import_onnx_params, params));
    RF_REQUIRE(strategy, "rf_model_import_onnx: strategy is NULL");
    RF_REQUIRE(path && *path, "rf_model_import_onnx: path is empty");
    RF_REQUIRE(!params || params->num_input_shapes == 0 || params->input_shapes,
               "rf_model_import_onnx: input_shapes is NULL");
    blob b = { .path = path };
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(strategy)) r = read_files(&b);
    r = rf_broadcast_result(strategy, r);
    if (r >= 0) r = share_bytes(strategy, &b);
    if (r >= 0) r = rf_error_context(make_model(strategy, &b, params, out), "'%s'", path);
    rf_free(b.bytes);
    return rf_error_context(r, "rf_model_import_onnx");
}
