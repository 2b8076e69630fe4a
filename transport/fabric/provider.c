/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the libfabric provider that the ranks use. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/fabric/internal.h"

static struct fi_info *make_hints(const char *provider)
{
    struct fi_info *hints = rf_fi.dupinfo(NULL);
    if (!hints) return NULL;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_MSG;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    if (provider && !(hints->fabric_attr->prov_name = strdup(provider))) {
        rf_fi.freeinfo(hints);
        return NULL;
    }
    return hints;
}

/* Layers over other providers, and those that are slow (sockets: 5 ms latency), unfinished (net) or do not notice the
 * end of a peer (shared memory). */
static bool is_usable(const char *name)
{
    static const char *const unwelcome[] = { "sockets", "net", "shm", "sm2", "udp", "usnic" };
    if (strchr(name, ';')) return false;
    for (size_t i = 0; i < sizeof(unwelcome) / sizeof(unwelcome[0]); i++)
        if (strcmp(name, unwelcome[i]) == 0) return false;
    return true;
}

static rf_result provider_query(const rf_fabric *fabric, const char *provider, struct fi_info **out)
{
    struct fi_info *hints = make_hints(provider);
    if (!hints) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for libfabric");
    const char *address = rf_mesh_local_address(fabric->mesh);
    const int error = rf_fi.getinfo(FI_VERSION(1, 17), address, "0", FI_SOURCE | FI_NUMERICHOST, hints, out);
    rf_fi.freeinfo(hints);
    if (error == 0) return RF_OK;
    *out = NULL;
    return RF_FAIL_FABRIC(
        RF_ERROR_UNSUPPORTED, error,
        "rank %u: libfabric has no provider%s%s with connected message endpoints on %s (%s); `fi_info -t "
        "FI_EP_MSG` lists them",
        fabric->rank, provider ? " " : "", provider ? provider : "", address, rf_fi.strerror(-error));
}

static void list_names(const struct fi_info *info, bool any, rf_fabric_offer *mine)
{
    for (; info && mine->count < RF_FABRIC_PROVIDERS; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        bool known = !any && !is_usable(name);
        for (uint32_t i = 0; i < mine->count && !known; i++) known = strcmp(mine->name[i], name) == 0;
        if (!known) snprintf(mine->name[mine->count++], RF_FABRIC_PROVIDER_NAME, "%s", name);
    }
}

static rf_result exchange_offers(rf_fabric *fabric, const rf_fabric_offer *mine)
{
    rf_fabric_offer *all = RF_NEW_ARRAY(rf_fabric_offer, fabric->world_size);
    size_t *sizes = RF_NEW_ARRAY(size_t, fabric->world_size);
    rf_result r = all && sizes ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) r = rf_mesh_exchange(fabric->mesh, mine, sizeof(*mine), all, sizeof(*all), sizes);
    if (r == RF_OK) r = rf_fabric_agree(all, sizes, fabric->world_size, fabric->provider);
    rf_free(all);
    rf_free(sizes);
    return r;
}

rf_result rf_fabric_choose(rf_fabric *fabric)
{
    const char *wish = fabric->job->provider[0] ? fabric->job->provider : NULL;
    struct fi_info *list = NULL;
    rf_fabric_offer *mine = RF_NEW(rf_fabric_offer);
    if (!mine) return RF_ERROR_OUT_OF_HOST_MEMORY;
    mine->byte_order = RF_FABRIC_BYTE_ORDER;
    rf_result r = rf_libfabric_open();
    if (r == RF_OK) r = provider_query(fabric, wish, &list);
    if (r == RF_OK) {
        list_names(list, wish != NULL, mine);
        r = exchange_offers(fabric, mine);
        for (struct fi_info *i = list; r == RF_OK && i && !fabric->info; i = i->next)
            if (strcmp(i->fabric_attr->prov_name, fabric->provider) == 0) fabric->info = rf_fi.dupinfo(i);
        if (r == RF_OK && !fabric->info) r = RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for libfabric");
        rf_fi.freeinfo(list);
    }
    rf_free(mine);
    return r;
}
