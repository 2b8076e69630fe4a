/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of ranks before their data connections stand: offers of providers, cards, tokens; honest ones pass and
 * nothing else. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "tests/room.h"
#include "transport/fabric/internal.h"
#include "transport/mesh/internal.h"

/* ---- offers ---- */

enum { RANKS = 3 };

static rf_fabric_offer all[RANKS];
static size_t sizes[RANKS];

static void make_offers(void)
{
    for (int r = 0; r < RANKS; r++) {
        all[r] = (rf_fabric_offer){ RF_FABRIC_BYTE_ORDER, 2, { "verbs", "tcp" } };
        sizes[r] = sizeof(all[r]);
    }
}

static void expect_refused(const char *part)
{
    char provider[RF_FABRIC_PROVIDER_NAME];
    assert_int_equal(rf_fabric_agree(all, sizes, RANKS, provider), RF_ERROR_UNSUPPORTED);
    if (!strstr(rf_error_message(), part)) fail_msg("%s", rf_error_message());
    make_offers();
}

TEST(test_offers)
{
    char provider[RF_FABRIC_PROVIDER_NAME];
    make_offers();
    assert_int_equal(rf_fabric_agree(all, sizes, RANKS, provider), RF_OK);
    assert_string_equal(provider, "verbs");
    all[1] = (rf_fabric_offer){ RF_FABRIC_BYTE_ORDER, 1, { "tcp" } };
    assert_int_equal(rf_fabric_agree(all, sizes, RANKS, provider), RF_OK);
    assert_string_equal(provider, "tcp");
    all[2] = (rf_fabric_offer){ RF_FABRIC_BYTE_ORDER, 1, { "psm3" } };
    expect_refused("rank 0 has verbs, rank 1 has tcp");
    all[2].count = 0;
    expect_refused("rank 2 has none");
    for (size_t size = 0; size < sizeof(all[0]); size += 13) {
        sizes[1] = size;
        expect_refused("rank 1 has another");
    }
    all[2].byte_order = 0x04030201u;
    expect_refused("rank 2 has another");
    all[0].count = RF_FABRIC_PROVIDERS + 1;
    expect_refused("rank 0 has another");
    memset(all[1].name[1], 'x', RF_FABRIC_PROVIDER_NAME); /* without an end */
    expect_refused("rank 1 has another");
    all[1].name[0][0] = '\n'; /* names get into messages of one line */
    expect_refused("rank 1 has another");
    all[1].name[0][0] = '\0';
    expect_refused("rank 1 has another");
}

/* ---- cards ---- */

static rf_fabric_card card(sa_family_t family, size_t size)
{
    rf_fabric_card c = { .address_size = (uint32_t)size };
    memcpy(c.address + offsetof(struct sockaddr, sa_family), &family, sizeof(family));
    return c;
}

static void expect_card(rf_result want, rf_fabric_card c, size_t size, uint32_t format)
{
    assert_int_equal(rf_fabric_check_card(&c, size, format, 7), want);
    if (want < 0) assert_non_null(strstr(rf_error_message(), "rank 7"));
}

TEST(test_cards)
{
    const size_t v4 = sizeof(struct sockaddr_in), v6 = sizeof(struct sockaddr_in6), whole = sizeof(rf_fabric_card);
    expect_card(RF_OK, card(AF_INET, v4), whole, FI_SOCKADDR_IN);
    expect_card(RF_OK, card(AF_INET, v4), whole, FI_SOCKADDR);
    expect_card(RF_OK, card(AF_INET6, v6), whole, FI_SOCKADDR_IN6);
    for (size_t size = 0; size < whole; size++)
        expect_card(RF_ERROR_CORRUPT_DATA, card(AF_INET, v4), size, FI_SOCKADDR_IN);
    expect_card(RF_ERROR_CORRUPT_DATA, card(AF_INET, 0), whole, FI_SOCKADDR_IN);
    expect_card(RF_ERROR_CORRUPT_DATA, card(AF_INET, RF_FABRIC_ADDRESS + 1), whole, FI_ADDR_STR);
    /* A reader of the family would read past the end. */
    expect_card(RF_ERROR_CORRUPT_DATA, card(AF_INET, v4 - 1), whole, FI_SOCKADDR_IN);
    expect_card(RF_ERROR_CORRUPT_DATA, card(AF_INET6, v4), whole, FI_SOCKADDR_IN);
    expect_card(RF_ERROR_CORRUPT_DATA, card(AF_UNIX, v4), whole, FI_SOCKADDR);
    /* Addresses of other kinds are the provider's to judge. */
    expect_card(RF_OK, card(AF_UNIX, 9), whole, FI_ADDR_STR);
}

/* ---- tokens ---- */

/* Rank `rank` of four, which waits for all others. */
typedef struct side {
    rf_mesh mesh;
    rf_link links[4];
    rf_fabric_card cards[4];
    rf_fabric fabric;
} side;

static side *make_side(uint32_t rank, bool secure, uint8_t session)
{
    side *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    s->mesh.assembly.rank = rank;
    s->mesh.secure = secure;
    s->mesh.link_secret[0] = session; /* of the job's key, name and epoch */
    for (uint8_t i = 0; i < 4; i++) {
        s->links[i].state = RF_LINK_WANTED;
        s->cards[i].nonce[0] = i;
    }
    s->fabric = (rf_fabric){
        .mesh = &s->mesh, .rank = rank, .world_size = 4, .links = { [RF_DIRECTION_IN] = s->links }, .cards = s->cards
    };
    return s;
}

static void expect_no_peer(const side *listener, const void *bytes, size_t size)
{
    assert_int_equal(rf_fabric_check_token(&listener->fabric, bytes, size), UINT32_MAX);
}

static void check_tokens(bool secure)
{
    side *listener = make_side(1, secure, 9), *caller = make_side(3, secure, 9);
    struct {
        rf_fabric_token token;
        uint8_t padding[16]; /* a provider may bring more bytes than were sent */
    } got = { 0 };
    rf_fabric_token *token = &got.token;
    rf_fabric_make_token(&caller->fabric, 3, 1, token);
    assert_int_equal(rf_fabric_check_token(&listener->fabric, token, sizeof(*token)), 3);
    assert_int_equal(rf_fabric_check_token(&listener->fabric, &got, sizeof(got)), 3);
    for (size_t size = 0; size < sizeof(*token); size++) expect_no_peer(listener, token, size);
    for (size_t i = 0; i < sizeof(*token); i++) /* magic, ranks, every byte of the MAC */
        for (int bit = 0; bit < 8; bit++) {
            ((uint8_t *)token)[i] ^= (uint8_t)(1u << bit);
            expect_no_peer(listener, token, sizeof(*token));
            ((uint8_t *)token)[i] ^= (uint8_t)(1u << bit);
        }
    /* Another rank's, from this start of the job or another. */
    rf_fabric_make_token(&caller->fabric, 3, 2, token);
    expect_no_peer(listener, token, sizeof(*token));
    rf_fabric_make_token(&caller->fabric, 3, 1, token);
    listener->cards[3].nonce[5] = 1;
    expect_no_peer(listener, token, sizeof(*token));
    listener->cards[3].nonce[5] = 0;
    side *stranger = make_side(3, secure, 8);
    if (secure) {
        rf_fabric_make_token(&stranger->fabric, 3, 1, token);
        expect_no_peer(listener, token, sizeof(*token));
        rf_fabric_make_token(&caller->fabric, 3, 1, token);
    }
    /* Once. */
    static const rf_link_state others[] = { RF_LINK_NONE, RF_LINK_CONNECTING, RF_LINK_UP, RF_LINK_CLOSED };
    for (int i = 0; i < 4; i++) {
        listener->links[3].state = others[i];
        expect_no_peer(listener, token, sizeof(*token));
    }
    free(listener);
    free(caller);
    free(stranger);
}

TEST(test_tokens)
{
    check_tokens(true);
    check_tokens(false);
}

/* Every other rank connects. */
TEST(test_token_ranks)
{
    for (uint32_t from = 0; from < 6; from++)
        for (uint32_t to = 0; to < 4; to++) {
            const rf_fabric_token token = { RF_FABRIC_TOKEN_MAGIC, (uint16_t)from, (uint16_t)to, { 0 } };
            rf_fabric_token out;
            const uint32_t want = from != to && from < 4 ? from : UINT32_MAX;
            assert_int_equal(rf_fabric_token_read(&token, sizeof(token), to, 4, &out), want);
            assert_int_equal(rf_fabric_token_read(&token, sizeof(token), to + 1, 4, &out), UINT32_MAX);
        }
}

TESTS(fabric_message, NULL, NULL)
