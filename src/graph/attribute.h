/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of ops, element by element, through the tables that the ops declare. */
#ifndef RF_GRAPH_ATTRIBUTE_H
#define RF_GRAPH_ATTRIBUTE_H

#include "graph/op.h"

/* Elements up to the last that is not zero. */
uint32_t rf_attr_length(const rf_attr_field *field, const void *attr);
int64_t rf_attr_integer(const rf_attr_field *field, const void *attr, uint32_t index);
float rf_attr_float(const rf_attr_field *field, const void *attr, uint32_t index);
/* False, with nothing changed, when the field does not hold such a number. */
bool rf_attr_set_integer(const rf_attr_field *field, void *attr, uint32_t index, int64_t value);
void rf_attr_set_float(const rf_attr_field *field, void *attr, uint32_t index, float value);
/* The number of a name of a RF_ATTR_CHOICE, -1: there is none. */
int64_t rf_attr_choice(const rf_attr_field *field, const char *name);

#endif
