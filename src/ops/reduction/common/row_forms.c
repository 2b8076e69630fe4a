/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduction/common/row_forms.h"

bool rf_row_form_fits(const rf_row_form *form, const rf_device_caps *caps, uint64_t columns)
{
    if (form->way == RF_ROW_LANES && rf_row_lanes(caps, columns) == 0) return false;
    return !form->fours || columns % 4 == 0;
}

void rf_row_form_share(const rf_row_form *form, const rf_device_caps *caps, uint64_t columns, uint32_t passes,
                       rf_row_job *job)
{
    const uint64_t steps = form->fours ? columns / 4 : columns;
    switch (form->way) {
    case RF_ROW_ALONE:
        job->threads_per_row = 1;
        job->loops = rf_row_loops(columns, 1, passes);
        if (form->fours) job->score = RF_SCORE_WIDE;
        break;
    case RF_ROW_GROUP:
        rf_row_job_group(job, caps, job->shader, steps, passes);
        job->score = rf_row_group_score(caps, columns);
        break;
    case RF_ROW_LANES: rf_row_job_lanes(job, caps, steps, passes); break;
    }
    if (form->texels) rf_row_job_texels(job, caps, RF_SCORE_DRIVER);
}
