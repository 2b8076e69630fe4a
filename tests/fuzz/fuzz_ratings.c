/* SPDX-License-Identifier: Apache-2.0 */
/* Files of ratings, as examples/ncf reads them: each item of a user once, and others are there to draw. */
#include "fuzz.h"
#include "ncf/ratings.h"

static void check_user(const ratings *r, uint32_t user)
{
    const int32_t *items = r->items + r->first[user];
    const uint64_t count = r->first[user + 1] - r->first[user];
    uint64_t draw = 0;
    PROMISE(count > 0 && r->held_out[user] >= -1 && r->held_out[user] < (int32_t)r->num_items);
    for (uint64_t i = 0; i < count; i++) {
        PROMISE(items[i] >= 0 && items[i] < (int32_t)r->num_items && items[i] != r->held_out[user]);
        PROMISE(i == 0 || items[i] > items[i - 1]);
        PROMISE(ratings_has(r, user, items[i]));
    }
    const rf_random_key key = { .index = user };
    const int32_t other = ratings_draw_other(r, user, key, &draw);
    PROMISE(other >= 0 && other < (int32_t)r->num_items && !ratings_has(r, user, other));
}

FUZZ_TARGET(ratings)
{
    ratings r;
    uint64_t line;
    const char *problem = ratings_parse((const char *)data, size, &r, &line);
    PROMISE(!problem || (problem[0] && !r.items && r.num_users == 0));
    for (uint32_t user = 0; user < r.num_users; user++) check_user(&r, user);
    ratings_free(&r);
    return 0;
}
