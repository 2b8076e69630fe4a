/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of other ranks, and of strangers at the port, before data connections stand. The first byte chooses:
 *   0  the offers of three ranks, the size of each in the two bytes before it
 *   1  a card: its address format, the size that came in two bytes, the card
 *   2  a token as it is   3: laid over an honest one by XOR
 * with bit 2 in an insecure job. Only the honest token may pass.
 */
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "fuzz.h"
#include "transport/fabric/internal.h"
#include "transport/mesh/internal.h"

enum { RANKS = 3 };

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

/* Zeros where it has ended. */
static void take(input *in, void *to, size_t size)
{
    const size_t there = in->size < size ? in->size : size;
    memset(to, 0, size);
    if (there > 0) memcpy(to, in->data, there);
    in->data += there;
    in->size -= there;
}

static void offers(input in)
{
    rf_fabric_offer all[RANKS];
    size_t sizes[RANKS];
    char provider[RF_FABRIC_PROVIDER_NAME];
    for (int r = 0; r < RANKS; r++) {
        uint16_t size;
        take(&in, &size, sizeof(size));
        sizes[r] = size;
        take(&in, &all[r], sizeof(all[r]));
    }
    if (rf_fabric_agree(all, sizes, RANKS, provider) < 0) {
        promise_message();
        return;
    }
    PROMISE(memchr(provider, '\0', sizeof(provider)) && provider[0]);
    for (int r = 0; r < RANKS; r++) {
        bool has = false;
        for (uint32_t i = 0; i < all[r].count; i++) has |= strcmp(all[r].name[i], provider) == 0;
        PROMISE(has && sizes[r] == sizeof(all[r]));
    }
}

static void card(input in)
{
    uint8_t format;
    uint16_t size;
    rf_fabric_card *c = malloc(sizeof(*c)); /* so that reads beyond it are seen */
    if (!c) abort();
    take(&in, &format, sizeof(format));
    take(&in, &size, sizeof(size));
    take(&in, c, sizeof(*c));
    if (rf_fabric_check_card(c, size, format, 1) < 0) {
        promise_message();
    } else {
        PROMISE(size == sizeof(*c) && c->address_size > 0 && c->address_size <= sizeof(c->address));
        /* As a provider reads it. */
        const struct sockaddr *a = (const struct sockaddr *)(const void *)c->address;
        if (format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6)
            PROMISE(c->address_size == (a->sa_family == AF_INET6 ? 28 : 16));
    }
    free(c);
}

static void token(input in, bool over, bool secure)
{
    static rf_mesh meshes[2];
    static rf_link links[4] = {
        { .state = RF_LINK_WANTED }, { 0 }, { .state = RF_LINK_WANTED }, { .state = RF_LINK_UP }
    };
    static rf_fabric_card cards[4] = { { .nonce = { 1 } }, { .nonce = { 2 } }, { .nonce = { 3 } }, { .nonce = { 4 } } };
    rf_fabric sides[2];
    for (int i = 0; i < 2; i++) {
        meshes[i].assembly.rank = i ? 2 : 0;
        meshes[i].secure = secure;
        meshes[i].link_secret[7] = 99;
        sides[i] = (rf_fabric){ .mesh = &meshes[i],
                                .rank = i ? 2 : 0,
                                .world_size = 4,
                                .links = { [RF_DIRECTION_IN] = links },
                                .cards = cards };
    }
    rf_fabric_token honest;
    rf_fabric_make_token(&sides[1], 2, 0, &honest);
    uint8_t *bytes = malloc(in.size + 1);
    if (!bytes) abort();
    if (in.size > 0) memcpy(bytes, in.data, in.size);
    for (size_t i = 0; over && i < in.size && i < sizeof(honest); i++) bytes[i] ^= ((const uint8_t *)&honest)[i];
    const uint32_t from = rf_fabric_check_token(&sides[0], bytes, in.size);
    const bool same = in.size >= sizeof(honest) && memcmp(bytes, &honest, sizeof(honest)) == 0;
    PROMISE(from == (same ? 2 : UINT32_MAX));
    free(bytes);
}

FUZZ_TARGET(fabric)
{
    if (size == 0) return 0;
    const input in = { data + 1, size - 1 };
    switch (data[0] & 3) {
    case 0: offers(in); break;
    case 1: card(in); break;
    default: token(in, data[0] & 1, !(data[0] & 4));
    }
    return 0;
}
