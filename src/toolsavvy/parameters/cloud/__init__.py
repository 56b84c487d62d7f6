"""AWS in memory (moto): calls are carried out, their effects compared."""
