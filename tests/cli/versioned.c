/* Loaded before the program: the library is of another version. */
const char *ac_version(void);
const char *ac_version(void) {
  return "0.0.0";
}
