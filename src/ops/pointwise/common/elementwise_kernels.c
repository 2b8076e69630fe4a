/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the element-wise op. Two forms of one shader (shaders/pointwise/common/elementwise.comp): "wide" ones for
 * inputs of the output's size, single elements, x[(i / inner) % period] (bias rows, per-row factors) and x[i / inner *
 * period
 * + i % period] (masks and means along a middle axis: windows with a gap), and "strided" for any broadcasting.
 */
#include <string.h>

#include "ops/kit.h"
#include "ops/pointwise/common/elementwise.h"
#include "rf_shaders.h"

enum { MODE_UNUSED, MODE_FULL, MODE_ONE, MODE_WINDOW_VECTOR, MODE_WINDOW_SPLAT, MODE_WINDOW_ANY, MODE_SECOND = 8 };
/* Some input has MODE_WINDOW_ANY with the first window (<< 1: with the second); it reads eights where the shader does
 * fours. */
#define FORM_ANY (1u << 24)
#define FORM_VECTOR_OF_8 (1u << 26)
#define FORM_SPLAT_OF_8 (1u << 28)
#define FORM_GAP (1u << 30)
typedef struct window {
    uint64_t inner, period;
    bool gap; /* each `period` elements repeat throughout `inner`, and others follow; else each one does */
} window;
typedef struct layout {
    uint32_t n_windows;
    window windows[2];
    uint32_t kind[RF_ELEMENTWISE_INPUTS];  /* MODE_FULL, MODE_ONE or MODE_WINDOW_ANY */
    uint32_t which[RF_ELEMENTWISE_INPUTS]; /* the window, for the last */
} layout;

/* Skips the innermost of d dimensions while they are, or are not, present; returns their product. */
static uint64_t skip_dimensions(const rf_collapsed *c, uint32_t present, bool are_present, uint32_t *d)
{
    uint64_t product = 1;
    while (*d > 0 && (present >> (*d - 1) & 1) == are_present) product *= c->size[--*d];
    return product;
}

/* Finds the window of an input that has the collapsed dimensions `present`; false where it repeats otherwise. */
static bool find_window(const rf_collapsed *c, uint32_t present, window *out)
{
    uint32_t d = c->rank;
    *out = (window){ .inner = skip_dimensions(c, present, false, &d) };
    out->period = skip_dimensions(c, present, true, &d);
    const uint64_t repeats = skip_dimensions(c, present, false, &d);
    if (d == 0) return out->inner * out->period < 1ull << 30;
    if (out->inner > 1) return false;
    out->gap = true;
    out->inner = repeats * out->period;
    const uint64_t outer = skip_dimensions(c, present, true, &d);
    return d == 0 && outer * out->inner < 1ull << 31; /* the shader divides indices by multiplication */
}

static bool is_same_window(const window *a, const window *b)
{
    return a->inner == b->inner && a->period == b->period && a->gap == b->gap;
}

static bool find_layout(const rf_op_call *call, const rf_device_caps *caps, layout *out)
{
    rf_collapsed c;
    rf_broadcast_collapse(call->out[0].shape, call->in, call->n_in, &c);
    memset(out, 0, sizeof(*out));
    const uint32_t all = (1u << c.rank) - 1;
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (c.present[i] == all || c.present[i] == 0) {
            out->kind[i] = c.present[i] == 0 ? MODE_ONE : MODE_FULL;
            continue;
        }
        window w;
        if (!find_window(&c, c.present[i], &w) || rf_tensor_bytes(&call->in[i]) > caps->max_storage_range) return false;
        uint32_t k = 0;
        while (k < out->n_windows && !is_same_window(&out->windows[k], &w)) k++;
        if (k == 2) return false;
        if (k == out->n_windows) out->windows[out->n_windows++] = w;
        out->kind[i] = MODE_WINDOW_ANY;
        out->which[i] = k;
    }
    return true;
}

/* How a shader that reads vectors of `vector` elements reads an input. */
static uint32_t input_mode(const layout *l, uint32_t i, uint32_t vector)
{
    if (l->kind[i] != MODE_WINDOW_ANY) return l->kind[i];
    const window *w = &l->windows[l->which[i]];
    if ((w->inner == 1 || w->gap) && w->period % vector == 0) return MODE_WINDOW_VECTOR;
    return w->inner % vector == 0 && !w->gap ? MODE_WINDOW_SPLAT : MODE_WINDOW_ANY;
}

/* The shaders for programs of at most `steps` steps and `inputs` inputs, smallest first: what a driver has to fold is
 * what a pipeline costs. */
typedef struct variant {
    uint32_t steps, inputs, size; /* the last: its place in the lists of shaders */
} variant;
static const variant variants[RF_ELEMENTWISE_SIZES] = {
    { 1, 2, 0 },
    { 2, 3, 1 },
    { 4, 5, 2 },
    { RF_MAX_STEPS, RF_ELEMENTWISE_INPUTS, 3 },
};

static const variant *find_variant(const rf_op_call *call)
{
    const rf_elementwise_attr *attr = call->attr;
    const variant *v = variants;
    while (attr->n_steps > v->steps || call->n_in > v->inputs) v++;
    return v;
}

/* Steps in the variant's numbering (steps follow its number of inputs), filled up with copies of the last. */
static void push_steps(rf_dispatch *d, const variant *v, const rf_op_call *call, float *imm)
{
    const rf_elementwise_attr *attr = call->attr;
    const uint32_t n_in = call->n_in, shift = v->inputs - n_in;
    for (uint32_t i = 0; i < v->steps; i++) {
        rf_scalar_step s = { .fn = RF_FN_COPY, .a = (uint8_t)(n_in + i - 1) };
        if (i < attr->n_steps) s = attr->steps[i];
        if (rf_scalar_table[s.fn].arity == 1) s.b = s.a;
        const uint32_t a = s.a >= n_in ? s.a + shift : s.a, b = s.b >= n_in ? s.b + shift : s.b;
        rf_dispatch_spec(d, (uint32_t)s.fn | a << 8 | b << 16);
        imm[i] = s.imm;
    }
}

/* All variants have the same struct, of which they take what their steps need. */
typedef rf_push_elementwise_1_w4 wide_push;
typedef rf_push_elementwise_1_strided strided_push;

static void push_windows(wide_push *push, const layout *l, uint64_t start)
{
    for (uint32_t k = 0; k < l->n_windows; k++) {
        const window *w = &l->windows[k];
        const rf_magic inner = rf_magic_make((uint32_t)w->inner), period = rf_magic_make((uint32_t)w->period);
        push->window[k].base = (uint32_t)(w->gap ? start : start % (w->inner * w->period));
        push->window[k].inner_magic = inner.magic;
        push->window[k].period = (uint32_t)w->period;
        push->window[k].period_magic = period.magic;
        push->window[k].shifts = inner.shift | period.shift << 8;
    }
}

/* Which tensors are stored in 16 bits, as the shader takes it. */
static uint32_t pack_types(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_dtype out = call->out[0].dtype;
    uint32_t word = rf_dtype_is_narrow(out) ? 128 : 0, type = word ? rf_type_word(out, caps) : 0;
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (!rf_dtype_is_narrow(call->in[i].dtype)) continue;
        word |= 1u << i;
        type = rf_type_word(call->in[i].dtype, caps);
    }
    return word | type << 8;
}

typedef rf_elementwise_form form;

/* A texel holds twice as many elements of 16 bits. */
static uint32_t form_vector(const form *f, const rf_tensor_desc *desc)
{
    return f->texel && rf_dtype_is_narrow(desc->dtype) ? 8 : f->vector;
}

/* Two constants of the shader: how each input is read, and what windows there are. */
static void push_modes(rf_dispatch *d, const layout *l, const rf_op_call *call, const form *f, bool has_tail)
{
    uint32_t modes = 0, windows = has_tail;
    for (uint32_t i = 0; i < call->n_in; i++) {
        const uint32_t mode = input_mode(l, i, form_vector(f, &call->in[i]));
        const uint32_t eights = f->texel ? input_mode(l, i, 8) : MODE_UNUSED;
        if (mode == MODE_WINDOW_ANY) windows |= FORM_ANY << l->which[i];
        if (eights == MODE_WINDOW_VECTOR) windows |= FORM_VECTOR_OF_8 << l->which[i];
        if (eights == MODE_WINDOW_SPLAT) windows |= FORM_SPLAT_OF_8 << l->which[i];
        modes |= (mode + l->which[i] * MODE_SECOND) << (4 * i);
    }
    for (uint32_t k = 0; k < l->n_windows; k++)
        if (l->windows[k].gap) windows |= FORM_GAP << k;
    rf_dispatch_spec(d, modes);
    rf_dispatch_spec(d, windows);
}

/* Texels are vectors where the shader reads vectors, elements elsewhere. */
static rf_bind_view form_view(const form *f, const layout *l, const rf_op_call *call, uint32_t input)
{
    if (!f->texel) return RF_VIEW_STORAGE;
    const uint32_t mode = input_mode(l, input, form_vector(f, &call->in[input]));
    return mode == MODE_FULL || mode == MODE_WINDOW_VECTOR ? RF_VIEW_TEXEL_RGBA32F : RF_VIEW_TEXEL_R32F;
}

/* The texel form's invocations have several vectors each, so that what is the same for all of them is done once:
 * reading rows that repeat throughout the output, for one. They are a stride apart, in which those rows end, and whole
 * subgroups. */
typedef struct turn_plan {
    uint32_t turns, stride;
    uint64_t invocations;
} turn_plan;

/* Where rows end with subgroups, an invocation's vectors are those of the next subgroups, in memory one behind the
 * other. Where they do not, steps of a few lines through memory would take twice the time: it has one vector in each
 * quarter of the tensor instead. */
static turn_plan plan_turns(const layout *l, uint32_t width, uint64_t items, const rf_device_caps *caps)
{
    enum { MOST_TURNS = 8, QUARTERS = 4, LEAST_INVOCATIONS = 1024 /* for some cores, in tasks of similar length */ };
    uint64_t unit = caps->subgroup_size;
    for (uint32_t k = 0; k < l->n_windows; k++) {
        const window *w = &l->windows[k];
        if (w->gap || w->inner > 1) continue;
        const uint64_t own = w->period / rf_common_divisor(w->period, width);
        unit = rf_min(unit * (own / rf_common_divisor(unit, own)), items + 1);
    }
    const bool apart = unit > caps->subgroup_size;
    const uint64_t least = unit * 16 > LEAST_INVOCATIONS ? unit * 16 : LEAST_INVOCATIONS;
    uint64_t turns = apart ? QUARTERS : MOST_TURNS, stride = unit;
    while (turns > 1 && items < turns * least) turns /= 2;
    if (turns == 1)
        stride = caps->subgroup_size;
    else if (apart)
        stride = rf_align_up(rf_div_up(items, turns), unit);
    return (turn_plan){ (uint32_t)turns, (uint32_t)stride, rf_div_up(items, stride * turns) * stride };
}

static void push_turns(wide_push *push, const turn_plan *turns)
{
    const rf_magic m = rf_magic_make(turns->stride);
    push->turns = turns->turns;
    push->stride = turns->stride;
    push->stride_magic = m.magic;
    push->stride_shift = m.shift;
}

rf_result rf_elementwise_plan(const rf_op_call *given, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    const form *f = data;
    const rf_op_call program = rf_program_of(given), *call = &program;
    const variant *v = find_variant(call);
    const uint32_t types = pack_types(call, caps);
    layout l;
    if (!find_layout(call, caps, &l)) return RF_FAIL(RF_ERROR_INTERNAL, "elementwise: kernel is not eligible");
    const uint64_t count = (uint64_t)rf_shape_count(call->out[0].shape), chunk = rf_flat_chunk(caps, sizeof(float));
    for (uint64_t start = 0; start < count; start += chunk) {
        const uint64_t n = rf_min(count - start, chunk);
        const turn_plan turns = f->texel ? plan_turns(&l, f->width, rf_div_up(n, f->width), caps) : (turn_plan){ 0 };
        rf_dispatch *d = rf_kernel_plan_add(plan, f->shaders[v->size], f->texel ? turns.turns : RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = start > 0;
        wide_push push = { .n_vec = (uint32_t)(n / f->width), .n_tail = (uint32_t)(n % f->width) };
        rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
        push_modes(d, &l, call, f, push.n_tail != 0);
        if (f->texel) push_turns(&push, &turns);
        push_steps(d, v, call, push.imm);
        rf_dispatch_spec(d, types);
        push_windows(&push, &l, start);
        rf_dispatch_push(d, &push, sizeof(push));
        for (uint32_t i = 0; i < v->inputs; i++) {
            const uint32_t k = i < call->n_in ? i : 0; /* the shader names them all: the rest repeat the first */
            rf_dispatch_bind(d, RF_BIND_INPUT, k, form_view(f, &l, call, k), false);
            if (l.kind[k] != MODE_FULL) continue;
            const uint64_t size = rf_dtype_size(call->in[k].dtype);
            d->bind[i].offset = start * size;
            d->bind[i].size = rf_align_up(n * size, 4);
        }
        const uint64_t size = rf_dtype_size(call->out[0].dtype);
        rf_bind_bytes(d, RF_BIND_OUTPUT, 0, start * size, rf_align_up(n * size, 4));
        rf_dispatch_items(d, caps, f->texel ? turns.invocations : (uint64_t)push.n_vec + push.n_tail);
    }
    return RF_OK;
}

double rf_elementwise_score(const rf_op_call *given, const rf_device_caps *caps, const void *data)
{
    const rf_op_call call = rf_program_of(given);
    layout l;
    return find_layout(&call, caps, &l) ? RF_SCORE_WIDE : RF_SCORE_NONE;
}

/* Whether every input, or what a dispatch reads of it, fits a texel view. */
static bool fits_texels(const rf_op_call *call, const rf_device_caps *caps, const form *f, const layout *l)
{
    const uint64_t chunk = rf_flat_chunk(caps, sizeof(float));
    for (uint32_t i = 0; i < call->n_in; i++) {
        const bool narrow = rf_dtype_is_narrow(call->in[i].dtype);
        if (call->in[i].dtype != RF_F32 && !narrow) return false;
        uint64_t count = (uint64_t)rf_shape_count(call->in[i].shape);
        if (l->kind[i] == MODE_FULL && count > chunk) count = chunk;
        const uint32_t words = form_view(f, l, call, i) == RF_VIEW_TEXEL_RGBA32F ? 4 : 1;
        if (rf_div_up(count, narrow ? 2 * words : words) > caps->max_texel_elements) return false;
    }
    return true;
}

/* lavapipe reads texels with a third of the instructions that storage buffers take, and writes 64 bits with those
 * of 32. */
double rf_elementwise_texel_score(const rf_op_call *given, const rf_device_caps *caps, const void *data)
{
    const rf_op_call call = rf_program_of(given);
    layout l;
    if (!rf_flat_texels(caps) || !find_layout(&call, caps, &l) || !fits_texels(&call, caps, data, &l))
        return RF_SCORE_NONE;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_DRIVER : RF_SCORE_RESERVE;
}

/* ---- any broadcasting ---- */

/* The range of an input's elements that the output elements [start, start + n) read: all, unless its leading dimension
 * is the output's; then what the rows of that dimension cover. */
static void input_range(const rf_collapsed *c, uint32_t present, uint64_t start, uint64_t n, uint64_t *first,
                        uint64_t *end)
{
    uint64_t row = 1, own_row = 1;
    for (uint32_t d = 1; d < c->rank; d++) {
        row *= c->size[d];
        if (present >> d & 1) own_row *= c->size[d];
    }
    const bool leading = c->rank > 0 && present & 1;
    *first = leading ? start / row * own_row : 0;
    *end = leading ? ((start + n - 1) / row + 1) * own_row : own_row;
    if (present == (1u << c->rank) - 1) {
        *first = start;
        *end = start + n;
    }
}

/* Elements per dispatch of the strided form: as many as let every input's range fit a descriptor. 0: none do. */
static uint64_t strided_chunk(const rf_op_call *call, const rf_device_caps *caps, const rf_collapsed *c)
{
    const uint64_t count = (uint64_t)rf_shape_count(call->out[0].shape), least = rf_flat_chunk(caps, 1 << 22);
    if (count >= 1ull << 31) return 0; /* the shader divides indices by multiplication */
    for (uint64_t chunk = rf_flat_chunk(caps, sizeof(float)); chunk >= least; chunk = rf_align_up(chunk / 2, least)) {
        bool fits = true;
        for (uint64_t start = 0; start < count && fits; start += chunk)
            for (uint32_t i = 0; i < call->n_in && fits; i++) {
                uint64_t first, end;
                input_range(c, c->present[i], start, count - start < chunk ? count - start : chunk, &first, &end);
                fits = (end - first) * 4 + caps->buffer_alignment <= caps->max_storage_range;
            }
        if (fits) return chunk;
        if (chunk == least) break;
    }
    return 0;
}

double rf_elementwise_strided_score(const rf_op_call *given, const rf_device_caps *caps, const void *data)
{
    const rf_op_call program = rf_program_of(given), *call = &program;
    rf_collapsed c;
    rf_broadcast_collapse(call->out[0].shape, call->in, call->n_in, &c);
    return rf_shape_count(call->out[0].shape) == 0 || strided_chunk(call, caps, &c) ? RF_SCORE_RESERVE : RF_SCORE_NONE;
}

rf_result rf_elementwise_strided_plan(const rf_op_call *given, const rf_device_caps *caps, const void *data,
                                      rf_kernel_plan *plan)
{
    static const rf_shader *const shaders[] = RF_ELEMENTWISE_SHADERS(strided);
    const rf_op_call program = rf_program_of(given), *call = &program;
    const variant *v = find_variant(call);
    rf_collapsed c;
    rf_broadcast_collapse(call->out[0].shape, call->in, call->n_in, &c);
    const uint64_t count = (uint64_t)rf_shape_count(call->out[0].shape);
    if (count == 0) return RF_OK;
    const uint64_t chunk = strided_chunk(call, caps, &c);
    if (!chunk) return RF_FAIL(RF_ERROR_INTERNAL, "elementwise: kernel is not eligible");
    for (uint64_t start = 0; start < count; start += chunk) {
        const uint64_t n = rf_min(count - start, chunk);
        rf_dispatch *d = rf_kernel_plan_add(plan, shaders[v->size], RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = start > 0;
        strided_push push = { .count = (uint32_t)n, .start = (uint32_t)start };
        for (uint32_t k = 0; k < c.rank; k++) {
            const rf_magic m = rf_magic_make((uint32_t)c.size[c.rank - 1 - k]);
            push.size[k] = (uint32_t)c.size[c.rank - 1 - k];
            push.magic[k] = m.magic;
            push.shifts |= m.shift << (5 * k);
        }
        rf_dispatch_spec(d, rf_local_size(caps, RF_FLAT_LOCAL));
        rf_dispatch_spec(d, ((1u << call->n_in) - 1) | c.rank << 8);
        rf_dispatch_spec(d, 0);
        push_steps(d, v, call, push.imm);
        for (uint32_t i = 0; i < v->inputs; i++) {
            const uint32_t k = i < call->n_in ? i : 0;
            uint64_t first, end;
            input_range(&c, c.present[k], start, n, &first, &end);
            const uint32_t base = rf_bind_elements(d, caps, RF_BIND_INPUT, k, first, end - first);
            for (uint32_t b = 0; b < c.rank; b++)
                push.present[i / 4] |= (c.present[k] >> (c.rank - 1 - b) & 1) << b << (8 * (i & 3));
            push.offset[i] = base - (uint32_t)first;
        }
        rf_dispatch_push(d, &push, sizeof(push));
        rf_bind_bytes(d, RF_BIND_OUTPUT, 0, start * 4, n * 4);
        rf_dispatch_items(d, caps, n);
    }
    return RF_OK;
}

const rf_elementwise_form rf_elementwise_fours = { RF_ELEMENTWISE_SHADERS(w4), 4, 4, false };
static const rf_kernel kernels[] = { RF_ELEMENTWISE_KERNELS };
const rf_kernel_list rf_elementwise_common = RF_KERNEL_LIST(kernels);
