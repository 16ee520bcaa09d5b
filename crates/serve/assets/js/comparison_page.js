// The entry point of a file with a comparison of words in context.
