/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with the name of PyTorch's, so that programs that load it ask for folders.
 */
int torch_cpu(void);

int torch_cpu(void)
{
    return 0;
}
