/* SPDX-License-Identifier: Apache-2.0 */
#include "ratings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/common.h>

static int report_memory(uint64_t count)
{
    fprintf(stderr, "%s: no memory for %llu ratings\n", program_invocation_short_name, (unsigned long long)count);
    return -1;
}

static int compare_items(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void ratings_free(ratings *r)
{
    free(r->first);
    free(r->items);
    free(r->held_out);
    free(r->truth.users);
    free(r->truth.items);
    free(r->truth.popularity);
    *r = (ratings){ 0 };
}

static bool allocate(ratings *r, uint32_t num_users, uint32_t num_items, uint64_t count)
{
    *r = (ratings){ .num_users = num_users, .num_items = num_items };
    r->first = calloc((size_t)num_users + 1, sizeof(*r->first));
    r->items = calloc(count + 1, sizeof(*r->items));
    r->held_out = calloc(num_users, sizeof(*r->held_out));
    return r->first && r->items && r->held_out;
}

/* ---- planted ---- */

enum { STREAM_USERS, STREAM_ITEMS, STREAM_POPULARITY, STREAM_CHOICE, STREAM_HELD_OUT, STREAM_TESTS };

static rf_random_key key_of(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (rf_random_key){ .seed = seed, .epoch = stream, .index = index };
}

static bool plant_truth(uint64_t seed, ratings *r)
{
    planted *p = &r->truth;
    p->users = calloc((size_t)r->num_users * PLANTED_FACTORS, sizeof(float));
    p->items = calloc((size_t)r->num_items * PLANTED_FACTORS, sizeof(float));
    p->popularity = calloc(r->num_items, sizeof(float));
    if (!p->users || !p->items || !p->popularity) return false;
    for (uint32_t i = 0; i < r->num_users * PLANTED_FACTORS; i++)
        p->users[i] = (float)rf_random_key_normal(key_of(seed, STREAM_USERS, i), 0);
    for (uint32_t i = 0; i < r->num_items * PLANTED_FACTORS; i++)
        p->items[i] = (float)rf_random_key_normal(key_of(seed, STREAM_ITEMS, i), 0);
    for (uint32_t i = 0; i < r->num_items; i++)
        p->popularity[i] = (float)rf_random_key_normal(key_of(seed, STREAM_POPULARITY, i), 0);
    return true;
}

double ratings_true_score(const ratings *r, uint32_t user, int32_t item)
{
    const double taste = 3.0, fashion = 0.5; /* next to chance, whose deviation is 1.3 */
    const float *u = r->truth.users + (size_t)user * PLANTED_FACTORS;
    const float *v = r->truth.items + (size_t)item * PLANTED_FACTORS;
    double product = 0;
    for (int i = 0; i < PLANTED_FACTORS; i++) product += (double)u[i] * (double)v[i];
    return taste * product / sqrt(PLANTED_FACTORS) + fashion * (double)r->truth.popularity[item];
}

typedef struct choice {
    double score;
    int32_t item;
} choice;

static int compare_choices(const void *a, const void *b)
{
    const choice *x = a, *y = b;
    return x->score < y->score ? 1 : x->score > y->score ? -1 : (x->item > y->item) - (x->item < y->item);
}

/* The items with the largest scores after Gumbel's noise are a sample without replacement, in which each item's weight
 * is e to its score. */
static void choose_items(uint64_t seed, uint32_t user, uint32_t per_user, choice *choices, ratings *r)
{
    const rf_random_key key = key_of(seed, STREAM_CHOICE, user);
    for (uint32_t i = 0; i < r->num_items; i++) {
        const double uniform = ((double)rf_random_key_uniform(key, i) + 1e-9) / (1 + 2e-9);
        choices[i] = (choice){ ratings_true_score(r, user, (int32_t)i) - log(-log(uniform)), (int32_t)i };
    }
    qsort(choices, r->num_items, sizeof(*choices), compare_choices);
    const uint64_t held_out = rf_random_key_below(key_of(seed, STREAM_HELD_OUT, user), 0, per_user + 1);
    int32_t *items = r->items + r->first[user];
    for (uint32_t i = 0; i <= per_user; i++) {
        if (i == held_out)
            r->held_out[user] = choices[i].item;
        else
            *items++ = choices[i].item;
    }
    r->first[user + 1] = r->first[user] + per_user;
    qsort(r->items + r->first[user], per_user, sizeof(*r->items), compare_items);
}

int ratings_plant(uint64_t seed, uint32_t num_users, uint32_t num_items, uint32_t per_user, ratings *out)
{
    const uint64_t count = (uint64_t)num_users * per_user;
    choice *choices = calloc(num_items, sizeof(*choices));
    const bool ok = allocate(out, num_users, num_items, count) && choices && plant_truth(seed, out);
    for (uint32_t user = 0; ok && user < num_users; user++) choose_items(seed, user, per_user, choices, out);
    free(choices);
    if (ok) return 0;
    ratings_free(out);
    return report_memory(count);
}

/* ---- read ---- */

typedef struct record {
    int64_t user, item;
    double time;
    uint64_t line;
} record;

typedef struct records {
    record *items;
    size_t count, capacity;
} records;

/* Behind "::", or one other separator; NULL where there is none. */
static const char *skip_separator(const char *at)
{
    if (at[0] == ':' && at[1] == ':') return at + 2;
    return *at && strchr(",;\t", *at) ? at + 1 : NULL;
}

static const char *read_id(const char *at, int64_t *out)
{
    char *end;
    errno = 0;
    if (*at < '0' || *at > '9') return NULL;
    *out = strtoll(at, &end, 10);
    return errno ? NULL : end;
}

static const char *read_number(const char *at, double *out)
{
    char *end;
    *out = rf_number_parse(at, &end);
    return end == at || !isfinite(*out) ? NULL : end;
}

/* The text of a line, which ends with a zero. Returns a text that says what is wrong with it, or NULL. */
static const char *parse_line(const char *text, record *out)
{
    double rating;
    const char *at = read_id(text, &out->user);
    if (!at) return "no user";
    at = skip_separator(at);
    at = at ? read_id(at, &out->item) : NULL;
    if (!at) return "no item";
    if (*at && !((at = skip_separator(at)) && (at = read_number(at, &rating)))) return "no rating";
    if (*at && !((at = skip_separator(at)) && (at = read_number(at, &out->time)))) return "no time";
    return *at ? "more than a time" : NULL;
}

static bool append(records *all, const record *r)
{
    if (all->count == all->capacity) {
        const size_t capacity = all->capacity ? 2 * all->capacity : 1024;
        record *items = realloc(all->items, capacity * sizeof(*items));
        if (!items) return false;
        all->items = items;
        all->capacity = capacity;
    }
    all->items[all->count++] = *r;
    return true;
}

static const char *const no_memory = "too many ratings for the memory";

/* Returns a text that says what is wrong, and in which line; NULL: nothing. */
static const char *parse_lines(const char *text, size_t size, records *all, uint64_t *line)
{
    const size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of the order of bytes */
    *line = 1;
    for (const char *at = text + mark, *end; at < text + size; at = end + 1, ++*line) {
        char copy[128];
        end = memchr(at, '\n', size - (size_t)(at - text));
        if (!end) end = text + size;
        size_t length = (size_t)(end - at);
        if (length > 0 && at[length - 1] == '\r') length--;
        if (length == 0) continue;
        if (length >= sizeof(copy) || memchr(at, '\0', length)) return "not a line of numbers";
        memcpy(copy, at, length);
        copy[length] = '\0';
        record r = { .line = *line };
        const char *wrong = parse_line(copy, &r);
        const bool header = wrong && *line == 1 && (copy[0] < '0' || copy[0] > '9');
        if (wrong && !header) return wrong;
        if (!header && !append(all, &r)) return no_memory;
    }
    *line = 0;
    return NULL;
}

/* By user, then from the earliest to the latest. */
static int compare_records(const void *a, const void *b)
{
    const record *x = a, *y = b;
    if (x->user != y->user) return x->user < y->user ? -1 : 1;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t number_ids(int64_t *ids, size_t count)
{
    size_t distinct = 0;
    qsort(ids, count, sizeof(*ids), compare_ids);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || ids[i] != ids[i - 1]) ids[distinct++] = ids[i];
    return (uint32_t)distinct;
}

static int32_t number_of(const int64_t *ids, uint32_t count, int64_t id)
{
    const int64_t *found = bsearch(&id, ids, count, sizeof(id), compare_ids);
    return (int32_t)(found - ids); /* it is one of them */
}

/* One user's records, ordered by time: each item once, and the last of them held out where there are others. */
static void take_user(const record *own, size_t count, const int64_t *ids, ratings *r, uint32_t user)
{
    int32_t *items = r->items + r->first[user];
    uint64_t kept = 0;
    for (size_t i = 0; i < count; i++) items[i] = number_of(ids, r->num_items, own[i].item);
    const int32_t last = items[count - 1];
    qsort(items, count, sizeof(*items), compare_items);
    for (size_t i = 0; i < count; i++)
        if (items[i] != last && (i == 0 || items[i] != items[i - 1])) items[kept++] = items[i];
    r->held_out[user] = kept > 0 ? last : -1;
    if (kept == 0) items[kept++] = last;
    r->first[user + 1] = r->first[user] + kept;
}

static const char *arrange(records *all, ratings *out)
{
    int64_t *ids = calloc(all->count, sizeof(*ids));
    if (!ids) return no_memory;
    uint32_t users = 1;
    qsort(all->items, all->count, sizeof(*all->items), compare_records);
    for (size_t i = 0; i < all->count; i++) {
        ids[i] = all->items[i].item;
        users += i > 0 && all->items[i].user != all->items[i - 1].user;
    }
    const uint32_t items = number_ids(ids, all->count);
    const char *problem = allocate(out, users, items, all->count) ? NULL : no_memory;
    uint32_t user = 0, tested = 0;
    for (size_t i = 0, end; !problem && i < all->count; i = end, user++) {
        for (end = i; end < all->count && all->items[end].user == all->items[i].user; end++) continue;
        take_user(all->items + i, end - i, ids, out, user);
        tested += out->held_out[user] >= 0;
        /* Half of the items or more leave too few to draw others from. */
        const uint64_t owned = out->first[user + 1] - out->first[user] + (out->held_out[user] >= 0);
        if (2 * owned > items) problem = "a user has more than half of all items";
    }
    free(ids);
    return !problem && tested == 0 ? "no user has two items" : problem;
}

const char *ratings_parse(const char *text, size_t size, ratings *out, uint64_t *line)
{
    records all = { 0 };
    *out = (ratings){ 0 };
    const char *problem = parse_lines(text, size, &all, line);
    if (!problem && all.count == 0) problem = "there are no ratings";
    if (!problem && all.count > INT32_MAX) problem = no_memory;
    if (!problem) problem = arrange(&all, out);
    free(all.items);
    if (problem) ratings_free(out);
    return problem;
}

static int report_problem(const char *path, const char *problem, uint64_t line)
{
    fprintf(stderr, "%s: %s", program_invocation_short_name, path);
    if (line > 0) fprintf(stderr, ", line %llu", (unsigned long long)line);
    fprintf(stderr, line > 0 ? ": %s; a line is user,item[,rating[,time]]\n" : ": %s\n", problem);
    return -1;
}

static int report_file(const char *path)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path, strerror(errno));
    return -1;
}

int ratings_read(const char *path, ratings *out)
{
    *out = (ratings){ 0 };
    FILE *file = fopen(path, "rb");
    if (!file) return report_file(path);
    char *text = NULL;
    size_t size = 0, capacity = 0, got = 1;
    while (got > 0) {
        if (size == capacity) {
            char *larger = realloc(text, capacity = capacity ? 2 * capacity : 1 << 16);
            if (!larger) break;
            text = larger;
        }
        got = fread(text + size, 1, capacity - size, file);
        size += got;
    }
    const bool complete = got == 0 && !ferror(file);
    int result = complete ? 0 : report_file(path);
    if (complete) {
        uint64_t line;
        const char *problem = ratings_parse(text, size, out, &line);
        if (problem) result = report_problem(path, problem, line);
    }
    fclose(file);
    free(text);
    return result;
}

/* ---- use ---- */

bool ratings_has(const ratings *r, uint32_t user, int32_t item)
{
    const uint64_t first = r->first[user], count = r->first[user + 1] - first;
    return item == r->held_out[user] || bsearch(&item, r->items + first, count, sizeof(item), compare_items);
}

int32_t ratings_draw_other(const ratings *r, uint32_t user, rf_random_key key, uint64_t *draw)
{
    int32_t item;
    do item = (int32_t)rf_random_key_below(key, (*draw)++, r->num_items);
    while (ratings_has(r, user, item)); /* less than half of all items are */
    return item;
}

rf_result ratings_training(const ratings *r, uint32_t negatives, uint64_t seed, rf_dataset **out)
{
    const int64_t count = (int64_t)r->first[r->num_users];
    int32_t *users = calloc((size_t)count, sizeof(int32_t)), *tested = calloc(r->num_users, sizeof(int32_t));
    int32_t *held_out = calloc(r->num_users, sizeof(int32_t));
    int64_t num_tested = 0;
    rf_result result = users && tested && held_out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t user = 0; result >= 0 && user < r->num_users; user++) {
        for (uint64_t i = r->first[user]; i < r->first[user + 1]; i++) users[i] = (int32_t)user;
        if (r->held_out[user] < 0) continue;
        tested[num_tested] = (int32_t)user;
        held_out[num_tested++] = r->held_out[user];
    }
    const rf_array arrays[] = { { RF_I32, RF_SHAPE(count), users },
                                { RF_I32, RF_SHAPE(count), r->items },
                                { RF_I32, RF_SHAPE(num_tested), tested },
                                { RF_I32, RF_SHAPE(num_tested), held_out } };
    if (result >= 0)
        result = rf_dataset_from_pairs(&(rf_pairs_params){ .users = &arrays[0],
                                                           .items = &arrays[1],
                                                           .other_users = &arrays[2],
                                                           .other_items = &arrays[3],
                                                           .num_items = r->num_items,
                                                           .negatives = negatives,
                                                           .seed = seed },
                                       out);
    free(users);
    free(tested);
    free(held_out);
    return result;
}

/* The candidates of a user: what is held out, and the others. */
static void draw_test(const ratings *r, uint32_t negatives, uint64_t seed, uint32_t user, int32_t *items)
{
    const rf_random_key key = key_of(seed, STREAM_TESTS, user);
    uint64_t draw = 0;
    items[0] = r->held_out[user];
    for (uint32_t k = 1; k <= negatives; k++) items[k] = ratings_draw_other(r, user, key, &draw);
}

rf_result ratings_tests(const ratings *r, uint32_t negatives, uint64_t seed, uint32_t limit, rf_dataset **out)
{
    const int64_t width = 1 + (int64_t)negatives;
    int64_t rows = 0;
    int32_t *users = calloc((size_t)r->num_users * (size_t)width, sizeof(int32_t));
    int32_t *items = calloc((size_t)r->num_users * (size_t)width, sizeof(int32_t));
    rf_result result = users && items ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t user = 0; result >= 0 && user < r->num_users && rows < limit; user++) {
        if (r->held_out[user] < 0) continue;
        draw_test(r, negatives, seed, user, items + rows * width);
        for (int64_t k = 0; k < width; k++) users[rows * width + k] = (int32_t)user;
        rows++;
    }
    const rf_array arrays[] = { { RF_I32, RF_SHAPE(rows, width), users }, { RF_I32, RF_SHAPE(rows, width), items } };
    if (result >= 0)
        result = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, out);
    free(users);
    free(items);
    return result;
}

void ratings_ceiling(const ratings *r, uint32_t negatives, uint64_t seed, uint32_t limit, double *hit_rate,
                     double *ndcg)
{
    enum { K = 10 };
    uint32_t tested = 0;
    int32_t *items = calloc(1 + (size_t)negatives, sizeof(*items));
    *hit_rate = *ndcg = 0;
    for (uint32_t user = 0; items && user < r->num_users && tested < limit; user++) {
        if (r->held_out[user] < 0) continue;
        draw_test(r, negatives, seed, user, items);
        const double own = ratings_true_score(r, user, items[0]);
        uint32_t rank = 1;
        for (uint32_t k = 1; k <= negatives; k++) rank += ratings_true_score(r, user, items[k]) >= own;
        *hit_rate += rank <= K;
        if (rank <= K) *ndcg += log(2) / log(rank + 1);
        tested++;
    }
    if (tested > 0) *hit_rate /= tested;
    if (tested > 0) *ndcg /= tested;
    free(items);
}
