/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass of a Stockham FFT of radix 2, 4, 8 or 16, forward and inverse. The passes of a transform
 * read one buffer and write the other; the product of their radices is the length.
 *
 * -D LENGTH=…  points of a transform, a power of two
 */

float2 times(float2 a, float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* a times i for the inverse transform, times -i for the forward one. */
float2 quarter_turn(float2 a, float sign)
{
    return (float2)(-sign * a.y, sign * a.x);
}

float2 turn(float angle)
{
    float cosine;
    const float sine = sincos(angle, &cosine);
    return (float2)(cosine, sine);
}

void butterfly_2(float2 *v, float sign)
{
    const float2 a = v[0];
    v[0] = a + v[1];
    v[1] = a - v[1];
}

void butterfly_4(float2 *v, float sign)
{
    const float2 a = v[0] + v[2], b = v[0] - v[2];
    const float2 c = v[1] + v[3], d = quarter_turn(v[1] - v[3], sign);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
}

void butterfly_8(float2 *v, float sign)
{
    float2 even[4] = {v[0], v[2], v[4], v[6]};
    float2 odd[4] = {v[1], v[3], v[5], v[7]};
    butterfly_4(even, sign);
    butterfly_4(odd, sign);
    odd[1] = times(odd[1], (float2)(M_SQRT1_2_F, sign * M_SQRT1_2_F));
    odd[2] = quarter_turn(odd[2], sign);
    odd[3] = times(odd[3], (float2)(-M_SQRT1_2_F, sign * M_SQRT1_2_F));
    for (int i = 0; i < 4; i++) {
        v[i] = even[i] + odd[i];
        v[i + 4] = even[i] - odd[i];
    }
}

void butterfly_16(float2 *v, float sign)
{
    float2 even[8], odd[8];
    for (int i = 0; i < 8; i++) {
        even[i] = v[2 * i];
        odd[i] = v[2 * i + 1];
    }
    butterfly_8(even, sign);
    butterfly_8(odd, sign);
    for (int i = 0; i < 8; i++) {
        const float2 turned = times(odd[i], turn(sign * M_PI_F * (float)i / 8.0f));
        v[i] = even[i] + turned;
        v[i + 8] = even[i] - turned;
    }
}

/* @done  the product of the radices of the passes before this one */
#define PASS(NAME, RADIX, SIGN)                                                                    \
    kernel void NAME(global const float2 *input, global float2 *output, int done)                  \
    {                                                                                              \
        const int i = (int)get_global_id(0);                                                       \
        const int transform = (int)get_global_id(1) * LENGTH;                                      \
        const int k = i & (done - 1);                                                              \
        const float angle = (SIGN) * 2.0f * M_PI_F * (float)k / (float)(done * RADIX);             \
        float2 v[RADIX];                                                                           \
        for (int r = 0; r < RADIX; r++) {                                                          \
            v[r] = times(input[transform + i + r * (LENGTH / RADIX)], turn(angle * (float)r));     \
        }                                                                                          \
        butterfly_##RADIX(v, SIGN);                                                                \
        for (int r = 0; r < RADIX; r++) {                                                          \
            output[transform + (i - k) * RADIX + k + r * done] = v[r];                             \
        }                                                                                          \
    }

PASS(forward_2, 2, -1.0f)
PASS(forward_4, 4, -1.0f)
PASS(forward_8, 8, -1.0f)
PASS(forward_16, 16, -1.0f)
PASS(inverse_2, 2, 1.0f)
PASS(inverse_4, 4, 1.0f)
PASS(inverse_8, 8, 1.0f)
PASS(inverse_16, 16, 1.0f)
