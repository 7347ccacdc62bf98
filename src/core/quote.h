/* Names in sentences, which come from files that may be hostile, while sentences end on terminals.
 */
#ifndef AC_CORE_QUOTE_H
#define AC_CORE_QUOTE_H

/* A name for use in a sentence: quoted, shortened, control characters replaced. */
typedef struct ac_quoted {
  char text[104];
} ac_quoted;
ac_quoted ac_quote(const char *name);

#endif
