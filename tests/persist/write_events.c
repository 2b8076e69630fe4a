/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one event of every kind, with known contents, for test_events.py. Usage: write_events DIRECTORY */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <ringfire/events.h>

#include "tests/support/need_call.h"

static int write_images(rf_event_writer *w)
{
    unsigned char rgb[2 * 3 * 5 * 3];
    for (size_t i = 0; i < sizeof(rgb); i++) rgb[i] = (unsigned char)(i * 2);
    NEED_CALL(rf_event_writer_image(w, "pictures/rgb", 4, &(rf_array){ RF_U8, RF_SHAPE(2, 3, 5, 3), rgb }));
    float grey[4] = { -1.0f, 0.5f, 2.0f, NAN };
    NEED_CALL(rf_event_writer_image(w, "pictures/grey", 5, &(rf_array){ RF_F32, RF_SHAPE(2, 2, 1), grey }));
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc != 2) return EXIT_FAILURE;
    rf_event_writer *w;
    NEED_CALL(rf_event_writer_create(&(rf_event_writer_params){ .directory = argv[1] }, &w));
    printf("%s\n", rf_event_writer_path(w));
    const rf_hparam hparams[] = { { "learning_rate", NULL, 0.001 }, { "optimizer", "adam", 0 }, { "zero", NULL, 0 } };
    NEED_CALL(rf_event_writer_hparams(w, hparams, 3));
    const rf_shape shapes[] = { RF_SHAPE(64, 784), RF_SHAPE(784, 10), RF_SHAPE(64, 10) };
    const char *const inputs[] = { "x", "dense/kernel" };
    const rf_event_node nodes[] = { { "x", "Placeholder", NULL, 0, &shapes[0], 1 },
                                    { "dense/kernel", "VariableV2", NULL, 0, &shapes[1], 1 },
                                    { "dense/matmul", "MatMul", inputs, 2, &shapes[2], 1 } };
    NEED_CALL(rf_event_writer_graph(w, nodes, 3));
    for (int i = 0; i < 100; i++) NEED_CALL(rf_event_writer_scalar(w, "epoch_loss", i, 1.0 / (1 + i)));
    NEED_CALL(rf_event_writer_scalar(w, "not a number", -1, NAN));
    float values[1002];
    for (int i = 0; i < 1000; i++) values[i] = (float)i;
    values[1000] = NAN;
    values[1001] = INFINITY;
    NEED_CALL(rf_event_writer_histogram(w, "dense/kernel/histogram", 7, values, 1002));
    NEED_CALL(rf_event_writer_histogram(w, "constant", 8, values + 5, 1));
    NEED_CALL(rf_event_writer_histogram(w, "nothing", 9, values, 0));
    NEED_CALL(rf_event_writer_text(w, "notes", 3, "**bold** and Ünïcödé"));
    if (write_images(w) != EXIT_SUCCESS) return EXIT_FAILURE;
    NEED_CALL(rf_event_writer_flush(w));
    rf_event_writer_destroy(&w);
    return EXIT_SUCCESS;
}
