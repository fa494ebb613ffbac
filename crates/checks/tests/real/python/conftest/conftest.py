import notthere
