/* SPDX-License-Identifier: Apache-2.0 */
/* Folders for a while. */
#ifndef RINGFIRE_FOLDER_H
#define RINGFIRE_FOLDER_H

#include <stdbool.h>

#define FOLDER_SIZE 512

/* Makes a new folder that only this user may enter: below TMPDIR, or the first usual place that can be written, since
 * containers have one or another. `*place` is 0 at first, and afterwards where a further try goes on. False with the
 * errno of the first place that was tried. */
bool folder_make(char path[FOLDER_SIZE], unsigned *place);

#endif
