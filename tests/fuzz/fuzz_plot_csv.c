/* SPDX-License-Identifier: Apache-2.0 */
/* CSV logs that `ringfire plot` reads: points of named series come out, sorted by step. */
#include <math.h>

#include "fuzz.h"
#include "plot/plot.h"

FUZZ_TARGET(plot_csv)
{
    if (size == 0) return 0;
    FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
    PROMISE(file);
    plot_data d = { 0 };
    PROMISE(plot_load_csv(&d, file, "run"));
    fclose(file);
    size_t points = 0;
    for (size_t i = 0; i < d.count; i++) points += d.items[i].count;
    PROMISE(points <= size);
    plot_sort(&d);
    for (size_t i = 0; i < d.count; i++) {
        const plot_series *s = &d.items[i];
        PROMISE(s->run && s->tag && s->count > 0);
        bool numbers = true;
        for (size_t k = 0; k < s->count; k++) numbers &= !isnan(s->x[k]);
        for (size_t k = 1; numbers && k < s->count; k++) PROMISE(s->x[k - 1] < s->x[k]);
    }
    plot_data_free(&d);
    return 0;
}
