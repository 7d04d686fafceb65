/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiled products of square matrices. A work-group computes a tile of TILE x TILE results. Each of
 * its work-items computes a block of WORK x WORK of them in registers.
 *
 * -D TILE=…  side of a tile
 * -D WORK=…  side of a work-item's block; must divide TILE
 */

#define SIDE (TILE / WORK)

void load_tile(local float *tile, global const float *matrix, int size, int row, int column)
{
    for (int i = 0; i < WORK; i++) {
        for (int j = 0; j < WORK; j++) {
            const int y = (int)get_local_id(1) + i * SIDE;
            const int x = (int)get_local_id(0) + j * SIDE;
            tile[y * TILE + x] = matrix[(row + y) * size + column + x];
        }
    }
}

void load_tile_transposed(local float *tile, global const float *matrix, int size, int row,
                          int column)
{
    for (int i = 0; i < WORK; i++) {
        for (int j = 0; j < WORK; j++) {
            const int y = (int)get_local_id(1) + i * SIDE;
            const int x = (int)get_local_id(0) + j * SIDE;
            tile[x * TILE + y] = matrix[(column + y) * size + row + x];
        }
    }
}

void multiply_tiles(float block[WORK][WORK], local const float *left, local const float *right)
{
#pragma unroll 8
    for (int k = 0; k < TILE; k++) {
        float column[WORK], row[WORK];
        for (int i = 0; i < WORK; i++) {
            column[i] = left[((int)get_local_id(1) + i * SIDE) * TILE + k];
            row[i] = right[k * TILE + (int)get_local_id(0) + i * SIDE];
        }
        for (int i = 0; i < WORK; i++) {
            for (int j = 0; j < WORK; j++) {
                block[i][j] = mad(column[i], row[j], block[i][j]);
            }
        }
    }
}

void store_block(float block[WORK][WORK], global float *result, int size)
{
    const int row = (int)get_group_id(1) * TILE + (int)get_local_id(1);
    const int column = (int)get_group_id(0) * TILE + (int)get_local_id(0);
    for (int i = 0; i < WORK; i++) {
        for (int j = 0; j < WORK; j++) {
            result[(row + i * SIDE) * size + column + j * SIDE] = block[i][j];
        }
    }
}

/* A kernel for each combination of memory layouts of the two factors. */
#define PRODUCT(NAME, LOAD_LEFT, LOAD_RIGHT)                                                       \
    kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void NAME(                         \
        global const float *left, global const float *right, global float *result, int size)       \
    {                                                                                              \
        local float left_tile[TILE * TILE], right_tile[TILE * TILE];                               \
        float block[WORK][WORK] = {{0}};                                                           \
        for (int k = 0; k < size; k += TILE) {                                                     \
            LOAD_LEFT(left_tile, left, size, (int)get_group_id(1) * TILE, k);                      \
            LOAD_RIGHT(right_tile, right, size, k, (int)get_group_id(0) * TILE);                   \
            barrier(CLK_LOCAL_MEM_FENCE);                                                          \
            multiply_tiles(block, left_tile, right_tile);                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                          \
        }                                                                                          \
        store_block(block, result, size);                                                          \
    }

PRODUCT(multiply, load_tile, load_tile)
PRODUCT(multiply_right_transposed, load_tile, load_tile_transposed)
PRODUCT(multiply_left_transposed, load_tile_transposed, load_tile)
