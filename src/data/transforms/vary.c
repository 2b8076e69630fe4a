/* SPDX-License-Identifier: Apache-2.0 */
#include "data/transforms/vary.h"

#include <string.h>

static rf_result vary_element(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    const rf_vary_step *step = user;
    for (uint32_t i = 0; i < in->num_components; i++) {
        const rf_array *a = &in->component[i];
        out->component[i].shape = a->shape;
        if (i == step->component)
            step->vary(step, key, a, &out->component[i]);
        else
            memcpy(out->component[i].data, a->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype));
    }
    return RF_OK;
}

rf_result rf_vary_check(const char *function, const rf_dataset *in, uint32_t index)
{
    RF_REQUIRE(index < in->spec.num_components, "%s: index is %u, the elements have %u components", function, index,
               in->spec.num_components);
    const rf_dtype dtype = in->spec.dtype[index];
    RF_REQUIRE(dtype == RF_U8 || dtype == RF_F32, "%s: component %u is %s, not u8 or f32", function, index,
               rf_dtype_name(dtype));
    RF_REQUIRE(in->spec.shape[index].rank == 3,
               "%s: component %u has %d dimensions; apply it to images [height, width, channels], before they are "
               "batched",
               function, index, in->spec.shape[index].rank);
    return RF_OK;
}

rf_result rf_dataset_vary(const rf_dataset *in, const rf_vary_step *step, rf_dtype dtype, uint64_t seed,
                          rf_dataset **out)
{
    rf_element_spec spec = in->spec;
    spec.dtype[step->component] = dtype;
    return rf_dataset_derive_random(in, vary_element, step, sizeof(*step), seed, &spec, out);
}
