/* SPDX-License-Identifier: Apache-2.0 */
#include "train/callbacks/callback.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"

rf_result rf_callback_create(const rf_callback_fns *fns, void *user, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_callback_fns, fns));
    RF_REQUIRE(fns, "rf_callback_create: fns is NULL");
    rf_callback *callback = RF_NEW(rf_callback);
    if (!callback) return RF_ERROR_OUT_OF_HOST_MEMORY;
    callback->fns = *fns;
    callback->user = user;
    *out = callback;
    return RF_OK;
}

void rf_callback_destroy(rf_callback **callback)
{
    if (!callback || !*callback) return;
    if ((*callback)->fns.destroy) (*callback)->fns.destroy((*callback)->user);
    rf_free(*callback);
    *callback = NULL;
}
