/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: whatever the file holds, it is read or refused in one line. The first byte says what is asked for: a header
 * and columns by name, another separator, a value for empty fields, rows
 * with a mistake left out. */
#include <string.h>

#include "base/error.h"
#include "data/formats/csv.h"
#include "fuzz.h"

FUZZ_TARGET(csv)
{
    static const char *const names[] = { "a", "b" };
    static const uint32_t columns[] = { 2, 0, 2, 1 };
    if (size == 0) return 0;
    const bool header = data[0] & 1;
    const rf_csv_component components[] = {
        { .dtype = RF_F32, .num_columns = 4, .columns = columns, .shape = RF_SHAPE(2, 2) },
        { .dtype = RF_I32, .num_columns = header ? 2 : 1, .names = header ? names : NULL, .first_column = 1 },
    };
    const rf_csv_params params = { .num_components = data[0] & 8 ? 2 : 1,
                                   .components = components,
                                   .separator = data[0] & 2 ? ';' : 0,
                                   .header = header,
                                   .fill_empty = data[0] & 4,
                                   .skip_damaged = data[0] & 16,
                                   .fill_value = -1 };
    rf_csv_plan plan;
    rf_array arrays[RF_MAX_COMPONENTS] = { 0 };
    PROMISE(rf_csv_plan_make(&params, &plan) == RF_OK);
    rf_csv_damage damage;
    const rf_result r = rf_csv_decode("csv", data + 1, size - 1, &plan, arrays, &damage);
    if (r < 0) {
        PROMISE((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) &&
                strncmp(rf_error_message(), "csv:", 4) == 0);
        promise_message();
    } else {
        int64_t sum = 0, most = 0;
        PROMISE(r == RF_OK && arrays[0].shape.rank == 3);
        for (uint32_t c = 0; c < plan.spec.num_components; c++) {
            const int64_t count = rf_shape_count(arrays[c].shape);
            const int32_t *words = arrays[c].data;
            PROMISE(arrays[c].shape.dim[0] == arrays[0].shape.dim[0]);
            most += count;
            for (int64_t i = 0; i < count; i++) sum += words[i] & 1; /* so all of them can be read */
        }
        PROMISE(sum <= most);
        /* The same column twice. */
        const float *f = arrays[0].data;
        for (int64_t i = 0; i < arrays[0].shape.dim[0]; i++) PROMISE(memcmp(&f[4 * i], &f[4 * i + 2], 4) == 0);
    }
    for (int c = 0; c < RF_MAX_COMPONENTS; c++) rf_array_free(&arrays[c]);
    rf_csv_plan_free(&plan);
    return 0;
}
