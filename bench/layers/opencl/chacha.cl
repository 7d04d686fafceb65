/* SPDX-License-Identifier: Apache-2.0
 *
 * Key streams of ChaCha with 8, 12 and 20 rounds. Each work-item makes a block of 16 words.
 *
 * -D STREAM=…  the number of the stream
 */

#define QUARTER_ROUND(a, b, c, d)                                                                  \
    a += b;                                                                                        \
    d = rotate(d ^ a, 16u);                                                                        \
    c += d;                                                                                        \
    b = rotate(b ^ c, 12u);                                                                        \
    a += b;                                                                                        \
    d = rotate(d ^ a, 8u);                                                                         \
    c += d;                                                                                        \
    b = rotate(b ^ c, 7u);

#define DOUBLE_ROUND(s)                                                                            \
    QUARTER_ROUND(s[0], s[4], s[8], s[12])                                                         \
    QUARTER_ROUND(s[1], s[5], s[9], s[13])                                                         \
    QUARTER_ROUND(s[2], s[6], s[10], s[14])                                                        \
    QUARTER_ROUND(s[3], s[7], s[11], s[15])                                                        \
    QUARTER_ROUND(s[0], s[5], s[10], s[15])                                                        \
    QUARTER_ROUND(s[1], s[6], s[11], s[12])                                                        \
    QUARTER_ROUND(s[2], s[7], s[8], s[13])                                                         \
    QUARTER_ROUND(s[3], s[4], s[9], s[14])

/* The state of a block: four constant words, the key, the number of the block, and the number of
 * the stream. */
void begin_block(uint *state, constant const uint *key, uint number)
{
    state[0] = 0x61707865u;
    state[1] = 0x3320646eu;
    state[2] = 0x79622d32u;
    state[3] = 0x6b206574u;
    for (int i = 0; i < 8; i++) {
        state[4 + i] = key[i];
    }
    state[12] = number;
    state[13] = 0u;
    state[14] = STREAM;
    state[15] = 0u;
}

#define KEY_STREAM(NAME, ROUNDS)                                                                   \
    kernel void NAME(constant const uint *key, global uint *stream)                                \
    {                                                                                              \
        const uint number = (uint)get_global_id(0);                                                \
        uint first[16], s[16];                                                                     \
        begin_block(first, key, number);                                                           \
        for (int i = 0; i < 16; i++) {                                                             \
            s[i] = first[i];                                                                       \
        }                                                                                          \
        _Pragma("unroll") for (int i = 0; i < ROUNDS; i += 2)                                      \
        {                                                                                          \
            DOUBLE_ROUND(s)                                                                        \
        }                                                                                          \
        for (int i = 0; i < 16; i++) {                                                             \
            stream[number * 16u + (uint)i] = s[i] + first[i];                                      \
        }                                                                                          \
    }

KEY_STREAM(chacha_8, 8)
KEY_STREAM(chacha_12, 12)
KEY_STREAM(chacha_20, 20)
