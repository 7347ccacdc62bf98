/* The parameters of a model on their way to a file. */
#include "export/export.h"

#include "core/error.h"
#include "core/quote.h"
#include "io/opened.h"
#include "io/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_norm(ac_part part) {
  return part == AC_PART_NORM || part == AC_PART_ATTENTION_NORM || part == AC_PART_MLP_NORM ||
         part == AC_PART_AFTER_ATTENTION || part == AC_PART_AFTER_MLP || part == AC_PART_Q_NORM ||
         part == AC_PART_K_NORM;
}
