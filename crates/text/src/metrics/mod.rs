//! Metrics on strings: BLEU, chrF, TER, ROUGE, accuracy and error rates.
