/* What nodes of programs are called in messages and reports: by the public function that made them,
 * and NAME_gradient. What several were fused to is a formula. */
#include "ops/pointwise/elementwise.h"
#include "ops/pointwise/functions.h"

#include <string.h>

#define TITLES(X) AC_FUNCTION_LIST(X) X(scale, ) X(add_scalar, ) X(swiglu, ) X(geglu, ) X(expand, )

static const char *const titles[][2] = {{"formula", "formula_gradient"},
#define TITLE(name, ...) {#name, #name "_gradient"},
                                        TITLES(TITLE)
#undef TITLE
};

uint8_t ac_pointwise_title(const char *name) {
  for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
    if (!strcmp(titles[i][0], name)) return (uint8_t)i;
  return 0;
}

const char *ac_pointwise_title_text(const ac_pointwise_attributes *attributes) {
  return titles[attributes->title][attributes->gradient];
}
