// ReceiptWorker: the pipeline of one receipt.
