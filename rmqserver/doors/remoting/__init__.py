"""RocketMQ's remoting protocol: request codes, headers and frames in; the broker's operations behind them."""
