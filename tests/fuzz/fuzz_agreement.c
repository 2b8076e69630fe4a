/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of the other workers of a job about themselves: the first byte chooses settings of a strategy, offers of
 * replicas (bit 2: for local updates), reports before a step or rows to gather, of three workers; the rest are their
 * bytes. Whatever is agreed on can be computed with.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "replica/agree.h"

enum { WORKERS = 3 };

static void settings(rf_world *w, const uint8_t *data, size_t size)
{
    rf_settings all[WORKERS] = { 0 };
    memcpy(all, data, size < sizeof(all) ? size : sizeof(all));
    if (rf_agree_settings(w, all) < 0) {
        promise_message();
        return;
    }
    PROMISE(w->first[0] == 0);
    for (int r = 0; r < WORKERS; r++)
        PROMISE(w->first[r + 1] > w->first[r] && w->first[r + 1] - w->first[r] <= RF_MAX_LOCAL_REPLICAS);
}

static void offers(const rf_world *w, bool local, const uint8_t *data, size_t size)
{
    rf_offer all[WORKERS] = { 0 };
    rf_replica_identity identities[WORKERS];
    rf_strategy s = { .members = { .world = *w, .num_replicas = WORKERS, .identities = identities } };
    s.update_mode = local ? RF_UPDATE_LOCAL : RF_UPDATE_SHARDED;
    memcpy(all, data, size < sizeof(all) ? size : sizeof(all));
    if (rf_agree_offers(&s, all) < 0) {
        promise_message();
    } else {
        double total = 0;
        PROMISE(s.store.alignment >= 64 && (s.store.alignment & (s.store.alignment - 1)) == 0 &&
                s.store.alignment <= 1u << 20);
        PROMISE(s.store.max_segment >= s.store.alignment && s.store.max_segment % s.store.alignment == 0);
        for (int r = 0; r < WORKERS; r++) {
            total += s.members.shares ? s.members.shares[r] : 1;
            PROMISE(memchr(identities[r].name, '\0', sizeof(identities[r].name)));
            PROMISE(memchr(identities[r].driver_name, '\0', sizeof(identities[r].driver_name)));
        }
        PROMISE(total > 0 && isfinite(total));
        uint32_t counts[WORKERS];
        rf_split_batch(100, s.members.shares, WORKERS, counts);
        PROMISE(counts[0] + counts[1] + counts[2] == 100);
    }
    rf_free(s.members.shares);
}

static void steps(const rf_world *w, const uint8_t *data, size_t size)
{
    rf_step_report all[WORKERS] = { 0 };
    memcpy(all, data, size < sizeof(all) ? size : sizeof(all));
    if (rf_agree_step(w, all) < 0) {
        promise_message();
        return;
    }
    uint64_t at = 0;
    for (int r = 0; r < WORKERS; r++) {
        PROMISE(all[r].first_row == at && all[r].rows <= all[r].examples - at && all[r].examples == all[0].examples);
        PROMISE(all[r].number == all[0].number && strcmp(all[r].function, all[0].function) == 0);
        at += all[r].rows;
    }
    PROMISE(at == all[0].examples);
}

/* Texts of any length, one behind the other. */
static void texts(const rf_world *w, const uint8_t *data, size_t size)
{
    if (size < 2) return;
    const uint64_t rest = size - 2, a = data[0] % (rest + 1), b = data[1] % (rest - a + 1);
    const uint64_t sizes[WORKERS] = { a, b, rest - a - b };
    PROMISE(rf_agree_settings_differ(w, (const char *)data + 2, sizes) == RF_ERROR_INVALID_ARGUMENT);
    promise_message();
}

__extension__ typedef unsigned __int128 wide;

static void rows(const rf_world *w, const uint8_t *data, size_t size)
{
    uint64_t numbers[1 + WORKERS] = { 0 }, bytes[WORKERS], total = 0;
    memcpy(numbers, data, size < sizeof(numbers) ? size : sizeof(numbers));
    memcpy(bytes, numbers + 1, sizeof(bytes));
    if (rf_agree_rows(w, "logits", numbers[0], bytes, &total) < 0) {
        promise_message();
        return;
    }
    wide exact = 0; /* without the carry being lost */
    for (int r = 0; r < WORKERS; r++) {
        exact += numbers[1 + r];
        PROMISE((wide)numbers[1 + r] * numbers[0] == bytes[r]);
    }
    PROMISE(exact == total && exact <= INT64_MAX && exact * numbers[0] <= SIZE_MAX);
}

FUZZ_TARGET(agreement)
{
    if (size == 0) return 0;
    uint32_t first[WORKERS + 1] = { 0, 1, 2, 3 };
    uint64_t counts[WORKERS] = { 0 };
    rf_world w = { .size = WORKERS, .first = first, .counts = counts };
    switch (data[0] & 3) {
    case 0: settings(&w, data + 1, size - 1); break;
    case 1: offers(&w, data[0] & 4, data + 1, size - 1); break;
    case 2: data[0] & 4 ? texts(&w, data + 1, size - 1) : steps(&w, data + 1, size - 1); break;
    default: rows(&w, data + 1, size - 1);
    }
    return 0;
}
