/* A vendor library from before the first function that is asked for. */
int weft_fake_empty(void);
int weft_fake_empty(void) { return 0; }
