/* SPDX-License-Identifier: Apache-2.0 */
/* Labels behind the predictions of connectionist temporal classification, and how far they are from others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/ctc.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"

enum { DEFAULT_WIDTH = 100, MOST_WIDTH = 1 << 16 };

typedef struct settings {
    const char *name;
    const float *predictions;
    int64_t n, steps, classes;
    rf_ctc_decode_params p;
} settings;

static rf_result read_settings(const char *name, const rf_array *predictions, const rf_ctc_decode_params *params,
                               const rf_array *labels, settings *s)
{
    char shape[96];
    RF_TRY(RF_PARAMS_CHECK(rf_ctc_decode_params, params));
    RF_REQUIRE(labels, "%s: labels is NULL", name);
    RF_REQUIRE(predictions && predictions->data, "%s: predictions is NULL", name);
    const rf_shape *x = &predictions->shape;
    rf_shape_format(*x, shape, sizeof(shape));
    RF_REQUIRE(predictions->dtype == RF_F32 && x->rank == 3 && rf_shape_count(*x) > 0,
               "%s: predictions are %s %s, must be f32 [n, steps, classes]", name, rf_dtype_name(predictions->dtype),
               shape);
    *s = (settings){ .name = name,
                     .predictions = predictions->data,
                     .n = x->dim[0],
                     .steps = x->dim[1],
                     .classes = x->dim[2],
                     .p = params ? *params : (rf_ctc_decode_params){ 0 } };
    if (s->p.beam_width == 0) s->p.beam_width = DEFAULT_WIDTH;
    if (s->p.num_paths == 0) s->p.num_paths = 1;
    RF_REQUIRE(s->p.blank >= 0 && s->p.blank < s->classes, "%s: blank is %d, must be a class of predictions %s", name,
               (int)s->p.blank, shape);
    RF_REQUIRE(s->p.form == RF_PROBABILITIES || s->p.form == RF_LOGITS, "%s: form %d does not exist", name,
               (int)s->p.form);
    RF_REQUIRE(s->p.beam_width <= MOST_WIDTH && s->p.num_paths <= s->p.beam_width,
               "%s: beam_width is %u and num_paths %u; the first is %u at most, the second the first", name,
               s->p.beam_width, s->p.num_paths, MOST_WIDTH);
    for (int64_t i = 0; s->p.input_lengths && i < s->n; i++)
        RF_REQUIRE(s->p.input_lengths[i] >= 0 && s->p.input_lengths[i] <= s->steps,
                   "%s: input_lengths[%lld] is %d, must be 0 to %lld", name, (long long)i, (int)s->p.input_lengths[i],
                   (long long)s->steps);
    return RF_OK;
}

static int64_t length_of(const settings *s, int64_t example)
{
    return s->p.input_lengths ? s->p.input_lengths[example] : s->steps;
}

/* Logarithms of the probabilities of a step. */
static rf_result read_step(const settings *s, int64_t example, int64_t step, double *logs)
{
    const float *x = s->predictions + (example * s->steps + step) * s->classes;
    double largest = -INFINITY, sum = 0;
    for (int64_t c = 0; c < s->classes; c++) {
        const double value = (double)x[c];
        RF_REQUIRE(!isnan(value) && value < INFINITY && (s->p.form == RF_LOGITS || value >= 0),
                   "%s: prediction %g of example %lld, step %lld, class %lld is no %s", s->name, value,
                   (long long)example, (long long)step, (long long)c, s->p.form == RF_LOGITS ? "logit" : "probability");
        if (value > largest) largest = value;
        logs[c] = s->p.form == RF_LOGITS ? value : log(value);
    }
    if (s->p.form != RF_LOGITS || largest == -INFINITY) return RF_OK;
    for (int64_t c = 0; c < s->classes; c++) sum += exp(logs[c] - largest);
    for (int64_t c = 0; c < s->classes; c++) logs[c] -= largest + log(sum);
    return RF_OK;
}

/* Labels of all examples, `paths` rows of `room` each, cut to the longest row. */
static rf_result cut_labels(const int32_t *rows, int64_t n, int64_t paths, int64_t room, bool with_paths,
                            rf_array *labels)
{
    int64_t longest = 1;
    for (int64_t i = 0; i < n * paths; i++)
        for (int64_t k = longest; k < room && rows[i * room + k] >= 0; k++) longest = k + 1;
    int32_t *data = RF_NEW_ARRAY(int32_t, n * paths * longest);
    if (!data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < n * paths; i++)
        for (int64_t k = 0; k < longest; k++) data[i * longest + k] = k < room ? rows[i * room + k] : -1;
    *labels = (rf_array){ .dtype = RF_I32,
                          .shape = with_paths ? RF_SHAPE(n, paths, longest) : RF_SHAPE(n, longest),
                          .data = data };
    return RF_OK;
}

/* ---- greedy ---- */

static rf_result decode_greedily(const settings *s, int64_t example, double *logs, int32_t *row, float *score)
{
    int32_t last = s->p.blank;
    int64_t count = 0;
    double sum = 0;
    for (int64_t t = 0; t < length_of(s, example); t++) {
        int32_t best = 0;
        RF_TRY(read_step(s, example, t, logs));
        for (int64_t c = 1; c < s->classes; c++)
            if (logs[c] > logs[best]) best = (int32_t)c;
        sum += logs[best];
        if (best != last && best != s->p.blank) row[count++] = best;
        last = best;
    }
    *score = (float)sum;
    return RF_OK;
}

typedef rf_result (*decode_fn)(const settings *s, int64_t example, double *logs, int32_t *rows, float *scores);

static rf_result decode_all(const settings *s, int64_t paths, bool with_paths, decode_fn decode, rf_array *labels,
                            rf_array *scores)
{
    const int64_t rows = s->n * paths;
    double *logs = RF_NEW_ARRAY(double, s->classes);
    int32_t *found = RF_NEW_ARRAY(int32_t, rows * s->steps);
    float *score = RF_NEW_ARRAY(float, rows);
    rf_result r = logs && found && score ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; r >= 0 && i < rows * s->steps; i++) found[i] = -1;
    for (int64_t i = 0; r >= 0 && i < s->n; i++)
        r = decode(s, i, logs, found + i * paths * s->steps, score + i * paths);
    if (r >= 0) r = cut_labels(found, s->n, paths, s->steps, with_paths, labels);
    if (r >= 0 && scores) {
        *scores =
            (rf_array){ .dtype = RF_F32, .shape = with_paths ? RF_SHAPE(s->n, paths) : RF_SHAPE(s->n), .data = score };
        score = NULL;
    }
    rf_free(score);
    rf_free(found);
    rf_free(logs);
    return r;
}

rf_result rf_ctc_greedy_decode(const rf_array *predictions, const rf_ctc_decode_params *params, rf_array *labels,
                               rf_array *scores)
{
    settings s = { 0 };
    RF_TRY(read_settings("rf_ctc_greedy_decode", predictions, params, labels, &s));
    return decode_all(&s, 1, false, decode_greedily, labels, scores);
}

/* ---- prefix beam search ---- */

/* A beginning of the labels: the last label and the beginning before it, which is number `parent`; 0 is the empty one.
 */
typedef struct prefix {
    uint32_t parent;
    int32_t label;
} prefix;

/* The logarithms of its probability by sequences that end with a blank, and with its last label. */
typedef struct beam {
    uint32_t prefix;
    double blank, label;
} beam;

/* A beam may become one with a label more, or (label -1) with the same beginning. */
typedef struct candidate {
    double score;
    uint32_t from, order; /* a beam; among equal scores the first one is better */
    int32_t label;
} candidate;

typedef struct search {
    const settings *s;
    prefix *prefixes;
    uint32_t *table, table_size; /* numbers of prefixes by what they are, 0 where there is none; a power of two */
    uint32_t num_prefixes, num_beams, num_candidates;
    beam *beams, *next;
    candidate *heap; /* the worst one first */
    bool *taken;     /* of each class: the beam's beginning with this label is a beam, too */
} search;

static double log_add(double a, double b)
{
    const double larger = a > b ? a : b, smaller = a > b ? b : a;
    return smaller == -INFINITY ? larger : larger + log1p(exp(smaller - larger));
}

static bool is_worse(const candidate *a, const candidate *b)
{
    return a->score != b->score ? a->score < b->score : a->order > b->order;
}

static void swap_candidates(candidate *a, candidate *b)
{
    const candidate c = *a;
    *a = *b;
    *b = c;
}

/* Puts the candidate into the heap if it is among the best so far. */
static void offer_candidate(search *q, candidate c)
{
    candidate *heap = q->heap;
    if (c.score == -INFINITY) return;
    if (q->num_candidates < q->s->p.beam_width) {
        uint32_t i = q->num_candidates++;
        heap[i] = c;
        for (; i > 0 && is_worse(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
            swap_candidates(&heap[i], &heap[(i - 1) / 2]);
        return;
    }
    if (is_worse(&c, &heap[0])) return;
    heap[0] = c;
    for (uint32_t i = 0, child; (child = 2 * i + 1) < q->num_candidates; i = child) {
        if (child + 1 < q->num_candidates && is_worse(&heap[child + 1], &heap[child])) child++;
        if (!is_worse(&heap[child], &heap[i])) break;
        swap_candidates(&heap[child], &heap[i]);
    }
}

/* The probability that the beam goes on with this label. */
static double extended_score(const search *q, const beam *b, int32_t label, double log_p)
{
    const bool repeats = b->prefix != 0 && q->prefixes[b->prefix].label == label;
    return log_p + (repeats ? b->blank : log_add(b->blank, b->label));
}

/* The beams after a step with their own beginnings, to which shorter beams that grow into them add. */
static void keep_beams(search *q, const double *logs)
{
    for (uint32_t i = 0; i < q->num_beams; i++) {
        const beam *b = &q->beams[i];
        const prefix own = q->prefixes[b->prefix];
        q->next[i] = (beam){ b->prefix, logs[q->s->p.blank] + log_add(b->blank, b->label), -INFINITY };
        if (b->prefix == 0) continue;
        q->next[i].label = logs[own.label] + b->label;
        for (uint32_t k = 0; k < q->num_beams; k++)
            if (q->beams[k].prefix == own.parent)
                q->next[i].label =
                    log_add(q->next[i].label, extended_score(q, &q->beams[k], own.label, logs[own.label]));
    }
}

/* The beginning with a label more. It keeps its number, as those that go on from it name it. */
static uint32_t find_prefix(search *q, uint32_t parent, int32_t label)
{
    const uint64_t hash = ((uint64_t)parent << 32 | (uint32_t)label) * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32) & (q->table_size - 1);
    for (; q->table[at] != 0; at = (at + 1) & (q->table_size - 1)) {
        const prefix *p = &q->prefixes[q->table[at]];
        if (p->parent == parent && p->label == label) return q->table[at];
    }
    q->prefixes[q->num_prefixes] = (prefix){ parent, label };
    return q->table[at] = q->num_prefixes++;
}

static int compare_candidates(const void *a, const void *b)
{
    return is_worse(a, b) ? 1 : -1;
}

static void take_step(search *q, const double *logs)
{
    const settings *s = q->s;
    uint32_t order = 0;
    q->num_candidates = 0;
    keep_beams(q, logs);
    for (uint32_t i = 0; i < q->num_beams; i++)
        offer_candidate(q, (candidate){ log_add(q->next[i].blank, q->next[i].label), i, order++, -1 });
    for (uint32_t i = 0; i < q->num_beams; i++) {
        for (uint32_t k = 0; k < q->num_beams; k++)
            if (q->beams[k].prefix != 0 && q->prefixes[q->beams[k].prefix].parent == q->beams[i].prefix)
                q->taken[q->prefixes[q->beams[k].prefix].label] = true;
        for (int32_t c = 0; c < (int32_t)s->classes; c++)
            if (c != s->p.blank && !q->taken[c])
                offer_candidate(q, (candidate){ extended_score(q, &q->beams[i], c, logs[c]), i, order++, c });
        memset(q->taken, 0, (size_t)s->classes * sizeof(bool));
    }
    qsort(q->heap, q->num_candidates, sizeof(candidate), compare_candidates);
    for (uint32_t i = 0; i < q->num_candidates; i++) {
        const candidate *c = &q->heap[i];
        beam *to = &q->next[s->p.beam_width + i];
        *to = q->next[c->from];
        if (c->label < 0) continue;
        *to = (beam){ find_prefix(q, q->beams[c->from].prefix, c->label), -INFINITY, c->score };
    }
    q->num_beams = q->num_candidates;
    memcpy(q->beams, q->next + s->p.beam_width, q->num_beams * sizeof(beam));
}

static void write_paths(const search *q, int32_t *rows, float *scores)
{
    for (uint32_t i = 0; i < q->s->p.num_paths; i++) {
        int64_t count = 0;
        scores[i] = -INFINITY;
        if (i >= q->num_beams) continue;
        scores[i] = (float)log_add(q->beams[i].blank, q->beams[i].label);
        for (uint32_t at = q->beams[i].prefix; at != 0; at = q->prefixes[at].parent) count++;
        for (uint32_t at = q->beams[i].prefix; at != 0; at = q->prefixes[at].parent)
            rows[i * q->s->steps + --count] = q->prefixes[at].label;
    }
}

static rf_result decode_by_beams(const settings *s, int64_t example, double *logs, int32_t *rows, float *scores)
{
    const size_t width = s->p.beam_width, most = width * (size_t)s->steps + 1;
    uint32_t size = 4;
    RF_REQUIRE(most < UINT32_MAX / 4, "%s: %zu beginnings of %lld steps are too many", s->name, width,
               (long long)s->steps);
    while (size < 2 * most) size *= 2;
    search q = { .s = s,
                 .table = RF_NEW_ARRAY(uint32_t, size),
                 .table_size = size,
                 .prefixes = RF_NEW_ARRAY(prefix, most),
                 .num_prefixes = 1,
                 .num_beams = 1,
                 .beams = RF_NEW_ARRAY(beam, width),
                 .next = RF_NEW_ARRAY(beam, 2 * width),
                 .heap = RF_NEW_ARRAY(candidate, width),
                 .taken = RF_NEW_ARRAY(bool, s->classes) };
    rf_result r = q.prefixes && q.table && q.beams && q.next && q.heap && q.taken ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) q.beams[0] = (beam){ 0, 0, -INFINITY };
    for (int64_t t = 0; r >= 0 && t < length_of(s, example); t++) {
        r = read_step(s, example, t, logs);
        if (r >= 0) take_step(&q, logs);
    }
    if (r >= 0) write_paths(&q, rows, scores);
    rf_free(q.taken);
    rf_free(q.heap);
    rf_free(q.next);
    rf_free(q.beams);
    rf_free(q.table);
    rf_free(q.prefixes);
    return r;
}

rf_result rf_ctc_beam_search_decode(const rf_array *predictions, const rf_ctc_decode_params *params, rf_array *labels,
                                    rf_array *scores)
{
    settings s = { 0 };
    RF_TRY(read_settings("rf_ctc_beam_search_decode", predictions, params, labels, &s));
    return decode_all(&s, s.p.num_paths, true, decode_by_beams, labels, scores);
}

/* ---- edit distance ---- */

static rf_result check_labels(const rf_array *a, int32_t most_rank, const char *name)
{
    char shape[96];
    RF_REQUIRE(a && a->data, "rf_edit_distance: %s is NULL", name);
    RF_REQUIRE(a->dtype == RF_I32 && a->shape.rank >= 2 && a->shape.rank <= most_rank && rf_shape_count(a->shape) > 0,
               "rf_edit_distance: %s are %s %s, must be i32 [n, labels]%s", name, rf_dtype_name(a->dtype),
               rf_shape_format(a->shape, shape, sizeof(shape)), most_rank > 2 ? " or [n, paths, labels]" : "");
    return RF_OK;
}

static int64_t count_labels(const int32_t *row, int64_t room)
{
    int64_t count = 0;
    while (count < room && row[count] >= 0) count++;
    return count;
}

/* `line` has room for m + 1 numbers: the distances of what was walked of `a` to all beginnings of `b`. */
static int64_t count_edits(const int32_t *a, int64_t n, const int32_t *b, int64_t m, int64_t *line)
{
    for (int64_t k = 0; k <= m; k++) line[k] = k;
    for (int64_t i = 0; i < n; i++) {
        int64_t diagonal = line[0]++;
        for (int64_t k = 0; k < m; k++) {
            const int64_t above = line[k + 1], replaced = diagonal + (a[i] != b[k]);
            const int64_t moved = (above < line[k] ? above : line[k]) + 1;
            line[k + 1] = replaced < moved ? replaced : moved;
            diagonal = above;
        }
    }
    return line[m];
}

rf_result rf_edit_distance(const rf_array *decoded, const rf_array *references, double *out)
{
    RF_REQUIRE(out, "rf_edit_distance: out is NULL");
    RF_TRY(check_labels(decoded, 3, "decoded labels"));
    RF_TRY(check_labels(references, 2, "references"));
    const rf_shape *a = &decoded->shape, *b = &references->shape;
    RF_REQUIRE(a->dim[0] == b->dim[0], "rf_edit_distance: %lld decoded examples and %lld references",
               (long long)a->dim[0], (long long)b->dim[0]);
    const int64_t room = a->dim[a->rank - 1], each = a->rank == 3 ? a->dim[1] * room : room;
    int64_t edits = 0, total = 0, *line = RF_NEW_ARRAY(int64_t, b->dim[1] + 1);
    if (!line) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < b->dim[0]; i++) {
        const int32_t *row = (const int32_t *)decoded->data + i * each,
                      *wanted = (const int32_t *)references->data + i * b->dim[1];
        const int64_t labels = count_labels(wanted, b->dim[1]);
        edits += count_edits(row, count_labels(row, room), wanted, labels, line);
        total += labels;
    }
    rf_free(line);
    RF_REQUIRE(total > 0, "rf_edit_distance: the references have no labels");
    *out = (double)edits / (double)total;
    return RF_OK;
}
