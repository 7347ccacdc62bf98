/* Elements that are moved as they are: floats in storage, or integers, which are as wide as float.
 */
#ifndef AC_CL_BITS_H
#define AC_CL_BITS_H

#include "common.h"

#if defined(STORAGE_F16) || defined(STORAGE_BF16)
typedef ushort bits;
#else
typedef uint bits;
#endif

#endif
