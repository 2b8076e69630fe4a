/* SPDX-License-Identifier: Apache-2.0 */
/* Row tile and column tile of number `tile`: eight row tiles after each other share a column's
 * lines of b in the cache. */
ivec2 block_order(int tile, int row_tiles, int column_tiles)
{
    int first = tile / (8 * column_tiles) * 8, at = tile % (8 * column_tiles),
        rows = min(row_tiles - first, 8);
    return ivec2(first + at % rows, at / rows);
}
