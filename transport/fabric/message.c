/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/fabric/message.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fabric.h>

/* ---- offers ---- */

/* Names end up in messages of one line. */
static bool is_sound(const rf_fabric_offer *o, size_t size)
{
    if (size != sizeof(*o) || o->byte_order != RF_FABRIC_BYTE_ORDER || o->count > RF_FABRIC_PROVIDERS) return false;
    for (uint32_t i = 0; i < o->count; i++) {
        const size_t length = strnlen(o->name[i], RF_FABRIC_PROVIDER_NAME);
        if (length == 0 || length == RF_FABRIC_PROVIDER_NAME) return false;
        for (size_t k = 0; k < length; k++)
            if (o->name[i][k] <= ' ' || o->name[i][k] > '~') return false;
    }
    return true;
}

static bool has_provider(const rf_fabric_offer *o, const char *name)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (strcmp(o->name[i], name) == 0) return true;
    return false;
}

rf_result rf_fabric_agree(const rf_fabric_offer *all, const size_t *sizes, uint32_t world_size,
                          char provider[RF_FABRIC_PROVIDER_NAME])
{
    for (uint32_t r = 0; r < world_size; r++)
        if (!is_sound(&all[r], sizes[r]))
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "rank %u has another byte order or version; all workers need the same",
                           r);
    for (uint32_t i = 0; i < all[0].count; i++) {
        bool common = true;
        for (uint32_t r = 1; r < world_size && common; r++) common = has_provider(&all[r], all[0].name[i]);
        if (!common) continue;
        memcpy(provider, all[0].name[i], RF_FABRIC_PROVIDER_NAME);
        return RF_OK;
    }
    for (uint32_t r = 1; r < world_size; r++)
        if (all[0].count == 0 || all[r].count == 0 || !has_provider(&all[r], all[0].name[0]))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "ranks have no libfabric provider in common: rank 0 has %s, rank %u has %s; choose one with "
                           "RINGFIRE_PROVIDER",
                           all[0].count ? all[0].name[0] : "none", r, all[r].count ? all[r].name[0] : "none");
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "ranks have no libfabric provider in common");
}

/* ---- cards ---- */

/* A provider believes the family of a socket address and reads as much as that has. */
static bool is_whole(const rf_fabric_card *card, uint32_t address_format)
{
    if (address_format != FI_SOCKADDR && address_format != FI_SOCKADDR_IN && address_format != FI_SOCKADDR_IN6)
        return true;
    sa_family_t family;
    memcpy(&family, card->address + offsetof(struct sockaddr, sa_family), sizeof(family));
    return (family == AF_INET && card->address_size == sizeof(struct sockaddr_in)) ||
           (family == AF_INET6 && card->address_size == sizeof(struct sockaddr_in6));
}

rf_result rf_fabric_check_card(const rf_fabric_card *card, size_t size, uint32_t address_format, uint32_t rank)
{
    if (size != sizeof(*card) || card->address_size == 0 || card->address_size > sizeof(card->address) ||
        !is_whole(card, address_format))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u announced no usable data address", rank);
    return RF_OK;
}

/* ---- tokens ---- */

uint32_t rf_fabric_token_read(const void *data, size_t size, uint32_t to, uint32_t world_size, rf_fabric_token *out)
{
    if (size < sizeof(*out)) return UINT32_MAX;
    memcpy(out, data, sizeof(*out));
    const bool sound =
        out->magic == RF_FABRIC_TOKEN_MAGIC && out->to == to && out->from != to && out->from < world_size;
    return sound ? out->from : UINT32_MAX;
}
