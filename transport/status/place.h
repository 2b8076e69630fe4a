/* SPDX-License-Identifier: Apache-2.0 */
/* Where the status of a job is found, and with which key: an address and the job's key, or a file in the run's
 * directory, which has an address and a key that serves nothing else. */
#ifndef RF_TRANSPORT_STATUS_PLACE_H
#define RF_TRANSPORT_STATUS_PLACE_H

#include "transport/channel/channel.h"

#define RF_STATUS_FILE "ringfire.status"
#define RF_STATUS_MESSAGE 1 /* the only frame of such a connection; its body is the text of state.h */

typedef struct rf_status_place {
    char host[RF_JOB_TEXT];
    uint16_t port;
} rf_status_place;

/* "host:port" or a port of loopback. False: the text is neither, and names a directory. */
bool rf_status_parse(const char *text, rf_status_place *out);
/* The settings of connections for a status, which no worker of the job takes for one of its own. With a key they are
 * encrypted. */
void rf_status_settings(rf_job *job, rf_hello *hello);

/* The file: mode 0600, replaced as a whole. `path` is made from the directory; rf_free(). */
char *rf_status_file(const char *directory);
rf_result rf_status_file_write(const char *path, const rf_status_place *place, const uint8_t key[RF_JOB_KEY_BYTES]);
/* Its text; `path` is for messages. */
rf_result rf_status_file_parse(const char *path, const char *text, size_t length, rf_status_place *place,
                               uint8_t key[RF_JOB_KEY_BYTES]);
/* RF_ERROR_NOT_FOUND without the file; refuses one that others can read. */
rf_result rf_status_file_read(const char *path, rf_status_place *place, uint8_t key[RF_JOB_KEY_BYTES]);

#endif
