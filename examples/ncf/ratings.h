/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who took what: of a file, or planted. Planted ratings follow factors of users and items that a program draws, so that
 * it is known how well any ranking could do. One item of each user is held out for the test, as in the paper.
 */
#ifndef EXAMPLE_NCF_RATINGS_H
#define EXAMPLE_NCF_RATINGS_H

#include <stddef.h>
#include <stdint.h>

#include <ringfire/ringfire.h>

enum { PLANTED_FACTORS = 2 };

typedef struct planted {
    float *users, *items; /* [num_users, PLANTED_FACTORS], [num_items, PLANTED_FACTORS] */
    float *popularity;    /* [num_items] */
} planted;

typedef struct ratings {
    uint32_t num_users, num_items;
    uint64_t *first;   /* [num_users + 1]: where a user's items begin */
    int32_t *items;    /* to train on: those of a user after each other, ascending */
    int32_t *held_out; /* [num_users]; -1: the user has no other items, and is not tested */
    planted truth;     /* of planted ratings */
} ratings;

/* All of them say what is wrong and return -1. Each user takes `per_user` items, and one that is held out, where fewer
 * than half of the items are taken. */
int ratings_plant(uint64_t seed, uint32_t num_users, uint32_t num_items, uint32_t per_user, ratings *out);
/* Lines "user,item[,rating[,time]]", also with "::", tabs or semicolons; users and items are any numbers. The latest
 * item of each user is held out (without times, the one of the last line). The first line may name the columns. */
int ratings_read(const char *path, ratings *out);
/* The same from memory. Returns what is wrong, with the line or 0; NULL: nothing. */
const char *ratings_parse(const char *text, size_t size, ratings *out, uint64_t *line);
void ratings_free(ratings *r);

/* Whether the user has it, for training or held out. */
bool ratings_has(const ratings *r, uint32_t user, int32_t item);
/* An item that the user does not have: draw number `draw` and the following ones of a key. */
int32_t ratings_draw_other(const ratings *r, uint32_t user, rf_random_key key, uint64_t *draw);
/* How much a user likes an item, of planted ratings. */
double ratings_true_score(const ratings *r, uint32_t user, int32_t item);

/* Elements (user i32 [], item i32 [], label f32 [1]): each item of a user with label 1, and with label 0 `negatives`
 * others, which are drawn anew in each pass: rf_dataset_from_pairs(). */
rf_result ratings_training(const ratings *r, uint32_t negatives, uint64_t seed, rf_dataset **out);
/* Elements (users i32 [1 + negatives], items i32 [1 + negatives]) of each user with an item that is held out, which
 * comes first; the others are the same in each pass. At most `limit` of them. */
rf_result ratings_tests(const ratings *r, uint32_t negatives, uint64_t seed, uint32_t limit, rf_dataset **out);

/* Hit rate and NDCG at 10 of the truth, on the tests of the same arguments. */
void ratings_ceiling(const ratings *r, uint32_t negatives, uint64_t seed, uint32_t limit, double *hit_rate,
                     double *ndcg);

#endif
