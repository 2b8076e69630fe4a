/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chief's words about an item of a checkpoint that it restores. The first byte chooses the item (0: a tensor, 1:
 * one with any number of rows, 2: bytes, 3: a number, 4: the id in the names of a sharded save's files); the rest are
 * the bytes. Only that item's bytes are taken: as many bytes as its shape has.
 */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "train/checkpoint/checkpoint.h"

static void part_id(const uint8_t *data, size_t size)
{
    rf_part_id id = { { 0 } };
    memcpy(id.text, data, size < sizeof(id.text) ? size : sizeof(id.text));
    if (!rf_part_id_is_valid(&id)) return;
    PROMISE(memchr(id.text, '\0', sizeof(id.text)) && id.text[0] && !strpbrk(id.text, "/.%\n"));
}

static void item(uint8_t choice, const uint8_t *data, size_t size)
{
    static const rf_item_kind kinds[] = { { .form = RF_ITEM_TENSOR, .dtype = RF_F32 },
                                          { .form = RF_ITEM_TENSOR, .dtype = RF_F32, .free_rows = true },
                                          { .form = RF_ITEM_BYTES },
                                          { .form = RF_ITEM_NUMBER } };
    char name[] = "model/dense/kernel";
    const rf_item mine = { .kind = &kinds[choice], .name = name, .shape = RF_SHAPE(3, 5) };
    rf_item_header header;
    rf_item_value value;
    memset(&header, 0, sizeof(header));
    memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
    const rf_result r = rf_item_header_take(&mine, &header, &value);
    PROMISE(!value.data && value.present == (r == RF_OK && header.present != 0));
    PROMISE(r == RF_OK || rf_error_message()[0]);
    if (!value.present) return;
    if (choice < 2) {
        PROMISE(value.shape.rank == 2 && value.shape.dim[1] == 5 && value.shape.dim[0] >= 0);
        PROMISE((choice == 1 || value.shape.dim[0] == 3) && value.size / 20 == (uint64_t)value.shape.dim[0]);
        PROMISE(value.size % 20 == 0);
    }
    PROMISE(choice != 3 || value.size == 0);
    /* Said again, it is the same. */
    const rf_item_header again = rf_item_header_of(&value);
    PROMISE(again.size == header.size && again.number == header.number && again.present == 1);
}

FUZZ_TARGET(checkpoint_item)
{
    if (size == 0) return 0;
    const uint8_t choice = data[0] % 5;
    if (choice == 4)
        part_id(data + 1, size - 1);
    else
        item(choice, data + 1, size - 1);
    return 0;
}
